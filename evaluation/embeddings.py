"""Texts as vectors, by the models that `scisci-gym engine get-model` fetches, where their folders are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.atomic_files import aside

Encoder = Callable[[Sequence[str]], np.ndarray]
"""Texts (N,) -> float array (N, D)."""
MODELS = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
"""Folders that are looked for, and what tables call the models in them."""
MODELS_VARIABLE = "SCISCI_GYM_MODELS"
"""Names the folder in which they are looked for; without it that is `models` in the working directory."""
MAX_TOKENS = 512
BATCH_TOKENS = 4096


def model_folders() -> dict[str, Path]:
    """The embedding models that are on this machine: their names in tables, and their folders."""
    root = Path(os.environ.get(MODELS_VARIABLE) or "models").absolute()
    return {name: root / folder for folder, name in MODELS.items() if (root / folder / "config.json").is_file()}


@lru_cache(maxsize=4)
def folder_encoder(folder: Path) -> Encoder:
    """An encoder by the transformer in a folder: the mean of its last hidden states over the tokens of a text.

    The model is read at the first call, computes in the number format of its weights, on a GPU where there is one, and
    sees the first 512 tokens of a text at most (or what its positions allow). Every text is embedded once: the vectors
    are kept beside the folder, in `.embeddings`.
    """
    load = lru_cache(maxsize=1)(lambda: _Pooled(folder))
    return remembering(_kept(folder, lambda texts: load().encode(texts)))


def _kept(folder: Path, encode: Encoder) -> Encoder:
    weights = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in folder.glob("*.safetensors"))

    def encoder(texts: Sequence[str]) -> np.ndarray:
        digest = hashlib.blake2b("\0".join([str(weights), *texts]).encode(), digest_size=16).hexdigest()
        path = folder.parent / ".embeddings" / f"{folder.name}-{digest}.npy"
        if path.is_file():
            return np.load(path)
        vectors = encode(texts)
        # In a folder that cannot be written to, they are computed anew each time.
        with suppress(OSError), aside(path) as unfinished, unfinished.open("wb") as file:
            np.save(file, vectors)
        return vectors

    return encoder


class _Pooled:
    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        self.torch = torch
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        with _quiet():  # It reports weights of heads that are not needed here.
            self.net: Any = AutoModel.from_pretrained(folder, dtype="auto").to(self.device).eval()
        self.limit = min(MAX_TOKENS, self.net.config.max_position_embeddings)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        tokens = [self.tokenizer.encode(text, truncation=True, max_length=self.limit) for text in texts]
        # Texts of similar length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda index: len(tokens[index]))
        vectors: dict[int, np.ndarray] = {}
        while order:
            rows = max(1, BATCH_TOKENS // max(1, len(tokens[order[-1]])))
            batch = [order.pop() for _ in range(min(rows, len(order)))]
            vectors |= dict(zip(batch, self._means([tokens[index] for index in batch]), strict=True))
        return np.stack([vectors[index] for index in range(len(texts))])

    def _means(self, batch: list[list[int]]) -> np.ndarray:
        torch, longest = self.torch, max(map(len, batch))
        ids = torch.zeros(len(batch), longest, dtype=torch.long, device=self.device)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens, device=self.device)
            mask[row, : len(tokens)] = 1
        with torch.inference_mode():
            hidden = self.net(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        weights = mask.unsqueeze(-1)
        return ((hidden * weights).sum(1) / weights.sum(1)).cpu().numpy()


@contextmanager
def _quiet() -> Iterator[None]:
    from transformers.utils import logging

    before, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bar:
            logging.enable_progress_bar()


def remembering(encode: Encoder) -> Encoder:
    """`encode`, called for every text only once: many environments are about the same papers."""
    vectors: dict[str, np.ndarray] = {}

    def encoder(texts: Sequence[str]) -> np.ndarray:
        new = list(dict.fromkeys(text for text in texts if text not in vectors))
        if new:
            vectors.update(zip(new, np.asarray(encode(new), dtype=float), strict=True))
        return np.stack([vectors[text] for text in texts])

    return encoder
