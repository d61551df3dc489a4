"""Toy prompts and data that several tests of the engine share."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tinker import types

from scisci_gym.engine.options import EngineOptions
from scisci_gym.engine.serve.backend import Backend

LABELS = ("alpha", "beta", "gamma")
WORDS = "paper graph field result method model theory system science citation network data quantum energy".split()


def make_prompts(count: int, seed: int) -> list[str]:
    """Questions of 6 to 30 words."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(6, 30))) + "?" for _ in range(count)]


def supervised(tokens: list[int], first: int = 1) -> types.Datum:
    """Cross-entropy on the tokens from position `first` on."""
    weights = [1.0 if i + 1 >= first else 0.0 for i in range(len(tokens) - 1)]
    inputs = {"target_tokens": tokens[1:], "weights": weights}
    return types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs)


def random_tokens(count: int, seed: int, vocabulary: int = 300) -> list[int]:
    return np.random.default_rng(seed).integers(3, vocabulary, count).tolist()


def cpu_backend(checkpoints: Path, models: Mapping[str, Path] | None = None, **options: Any) -> Backend:
    """A backend without a server, on the CPU and in float32."""
    return Backend(EngineOptions(models or {}, checkpoints, device="cpu", dtype="float32", **options))
