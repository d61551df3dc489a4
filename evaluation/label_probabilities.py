"""How probable a policy finds each label, by its own log-probabilities: calibration for policies that only name one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tinker
from tinker_cookbook.renderers import Message, Renderer

from ..datasets.atomic_files import drop_torn_lines
from ..envs.kit.base import SciSciEnv

CONCURRENCY = 256
CHUNK = 128


async def label_probabilities(
    client: tinker.SamplingClient,
    renderer: Renderer,
    envs: Sequence[SciSciEnv],
    labels: Sequence[str],
    concurrency: int = CONCURRENCY,
) -> np.ndarray:
    """Probability of each label's answer as the first thing the policy says, relative to those of the other labels.

    For every label the log-probabilities of its answer (`answer_for`, with the end of the turn) given the prompt are
    added up; the sums are normalised over the labels. What a policy would reason before it answers is left out, so for
    a policy that reasons this is its first impression.

    Parameters
    ----------
    client : tinker.SamplingClient
    renderer : Renderer
    envs : sequence of SciSciEnv, length N
        Fresh environments; only their first observation is used.
    labels : sequence of str, length K
    concurrency : int
        Requests under way at once.

    Returns
    -------
    float array (N, K)
        Rows sum to 1.
    """
    turn = asyncio.Semaphore(concurrency)

    async def log_probability(prompt: list[Message], answer: str) -> float:
        conversation = [*prompt, Message(role="assistant", content=answer)]
        tokens, weights = renderer.build_supervised_example(conversation)
        async with turn:
            found = await client.compute_logprobs(tokens)
        return sum(value for value, weight in zip(found, weights.tolist(), strict=True) if weight and value is not None)

    prompts = [await env.initial_observation() for env in envs]
    sums = await asyncio.gather(
        *(
            log_probability(prompt, env.answer_for(label))
            for env, prompt in zip(envs, prompts, strict=True)
            for label in labels
        )
    )
    scores = np.array(sums, dtype=float).reshape(len(envs), len(labels))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


async def kept_label_probabilities(
    client: tinker.SamplingClient, renderer: Renderer, envs: Sequence[SciSciEnv], labels: Sequence[str], path: Path
) -> np.ndarray:
    """`label_probabilities`, some examples at a time; what the file at `path` holds is not asked for again."""
    known: dict[str, list[float]] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        drop_torn_lines(path)
        known = {row["example_id"]: row["probabilities"] for row in map(json.loads, path.read_text().splitlines())}
    missing = [env for env in envs if env.example_id not in known]
    for start in range(0, len(missing), CHUNK):
        chunk = missing[start : start + CHUNK]
        found = await label_probabilities(client, renderer, chunk, labels)
        with path.open("a") as file:
            for env, row in zip(chunk, found.tolist(), strict=True):
                known[env.example_id] = row
                file.write(json.dumps({"example_id": env.example_id, "probabilities": row}) + "\n")
    return np.array([known[env.example_id] for env in envs])
