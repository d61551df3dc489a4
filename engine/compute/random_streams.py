"""Random numbers of sampling. They follow from a request alone, not from when or with what else it is served."""

import hashlib
from collections import Counter

import numpy as np


def uniforms(key: bytes, count: int) -> np.ndarray:
    """`count` float64 numbers in [0, 1) that depend on `key` alone; a longer stream starts with the shorter one."""
    digest = hashlib.blake2b(key, digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(count)


def seeded_key(seed: int, sample: int) -> bytes:
    """Key of sample number `sample` of a request that brought its own seed."""
    return f"seeded:{seed}:{sample}".encode()


class OccurrenceKeys:
    """Keys for requests without a seed, within one sampling session.

    A key is made of the run's seed (the server's for clients that name none), the version of the weights, the prompt,
    and how often this session has seen that prompt before. Eight equal requests therefore differ from each other, while
    a run that was killed and resumed from the same weights draws what the uninterrupted run drew.
    """

    def __init__(self, seed: int | None, version: str) -> None:
        self._seed = seed
        self._version = version
        self._seen: Counter[bytes] = Counter()

    def next(self, prompt: tuple[int, ...]) -> bytes:
        """Key of the next sample for `prompt`."""
        if self._seed is None:
            return np.random.default_rng().bytes(16)
        name = hashlib.blake2b(np.asarray(prompt, np.int64).tobytes(), digest_size=16).digest()
        occurrence = self._seen[name]
        self._seen[name] += 1
        return f"server:{self._seed}:{self._version}:{occurrence}:".encode() + name
