"""Bootstrap weights of examples, for scores that depend on more than a confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from .intervals import RESAMPLES

CHUNK_CELLS = 2_000_000


def bootstrap_weights(n: int, seed: int = 0, block: int = 1) -> Iterator[np.ndarray]:
    """How often each of `n` examples is drawn: first all of them once, then 2,000 resamples, some at a time.

    Parameters
    ----------
    n : int
    seed : int
    block : int
        How many neighbours are drawn together, such as both orders of a pair.

    Yields
    ------
    float array (R, n)

    Raises
    ------
    ValueError
        If `n` is 0 or not a multiple of `block`.
    """
    if n < 1 or n % block:
        raise ValueError(f"cannot resample {n} examples in blocks of {block}")
    yield np.ones((1, n))
    rng, units = np.random.default_rng(seed), n // block
    at_once = max(1, CHUNK_CELLS // n)
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        drawn = rng.integers(units, size=(rows, units)) + units * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        yield np.repeat(counts, block, axis=1).astype(float)


def resample(statistic: Callable[[np.ndarray], np.ndarray], n: int, seed: int = 0, block: int = 1) -> np.ndarray:
    """A statistic on all examples (first row) and on 2,000 resamples.

    Parameters
    ----------
    statistic : callable
        Weights (R, n) -> values (R,) or (R, ...).

    Returns
    -------
    array (1 + 2000, ...)
    """
    return np.concatenate([statistic(weights) for weights in bootstrap_weights(n, seed, block)])


def weighted_mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Means of `values` (n,) under each row of `weights` (R, n)."""
    return weights @ values / weights.sum(axis=1)
