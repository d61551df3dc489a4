"""Scores and differences of arms over several seeds, on the same papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..evaluation import confusion
from ..evaluation.comparison import compare
from ..evaluation.intervals import RESAMPLES, Score, interval

CHUNK = 250


@dataclass(frozen=True)
class ArmDifference:
    """First arm minus second, in macro-F1.

    Parameters
    ----------
    first, second : str
        Names of the arms.
    difference : Score
        Of the means over seeds. The interval comes from a bootstrap of two levels: seeds are drawn with replacement,
        and within a draw the papers, the same for both arms.
    by_seed : tuple of float
        Difference for every seed. Where one arm has no seeds (the base model, a baseline) it is the same each time.
    mcnemar_p : tuple of float
        Exact McNemar p for every seed.
    """

    first: str
    second: str
    difference: Score
    by_seed: tuple[float, ...]
    mcnemar_p: tuple[float, ...]

    @property
    def verdict(self) -> str:
        """ "better", "worse" or "not clearly different". Clear: an interval without 0, and seeds that agree."""
        low, high = self.difference.low, self.difference.high
        if low > 0 and all(value > 0 for value in self.by_seed):
            return "better"
        if high < 0 and all(value < 0 for value in self.by_seed):
            return "worse"
        return "not clearly different"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def two_level_macro_f1(
    truth: np.ndarray, arms: Sequence[np.ndarray], kinds: int, seed: int = 0
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Macro-F1 of arms under a bootstrap of seeds and papers.

    Parameters
    ----------
    truth : int array (N,)
        Positions of the true labels.
    arms : sequence of int arrays (S, N)
        Predictions for every seed; K stands for no answer. All arms have the same number S of seeds.
    kinds : int
        Number K of labels.
    seed : int
        Of the bootstrap.

    Returns
    -------
    by_seed : float array (A, S)
        Macro-F1 of every arm and seed on all papers.
    drawn : list of A float arrays (1 + 2000,)
        Mean over seeds: first of all seeds and papers, then of the resamples, which are the same for all arms.
    """
    rng = np.random.default_rng(seed)
    seeds, n = arms[0].shape
    shape = (kinds, kinds + 1)
    by_seed = np.array(
        [[float(confusion.macro_f1(_matrix(truth, guess, shape)[None])[0]) for guess in arm] for arm in arms]
    )
    drawn = [[row.mean()] for row in by_seed]
    onehot = [[_cells(truth, guess, shape) for guess in arm] for arm in arms]
    for start in range(0, RESAMPLES, CHUNK):
        rows = min(CHUNK, RESAMPLES - start)
        papers = rng.integers(n, size=(rows, n))
        weights = np.stack([np.bincount(row, minlength=n) for row in papers]).astype(np.float32)
        chosen = rng.integers(seeds, size=(rows, seeds))
        for at, arm in enumerate(onehot):
            scores = np.stack([confusion.macro_f1((weights @ cells).reshape(rows, *shape)) for cells in arm], axis=1)
            drawn[at].extend(np.take_along_axis(scores, chosen, axis=1).mean(axis=1))
    return by_seed, [np.array(values) for values in drawn]


def _matrix(truth: np.ndarray, guess: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return np.bincount(np.ravel_multi_index((truth, guess), shape), minlength=shape[0] * shape[1]).reshape(shape)


def _cells(truth: np.ndarray, guess: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Which cell of the confusion matrix each paper falls in, as float32 (N, cells) of zeros and ones."""
    return np.eye(shape[0] * shape[1], dtype=np.float32)[np.ravel_multi_index((truth, guess), shape)]


def arm_scores(
    expected: Sequence[str], predictions: Sequence[Sequence[str]], labels: Sequence[str], seed: int = 0
) -> tuple[Score, tuple[float, ...]]:
    """Macro-F1 of an arm: the mean over seeds with its two-level interval, and every seed's.

    Parameters
    ----------
    expected : sequence of str, length N
    predictions : sequence, one for each seed, of sequences of str, length N
    labels : sequence of str
    """
    truth, arm = _positions(expected, predictions, labels)
    by_seed, drawn = two_level_macro_f1(truth, [arm], len(labels), seed)
    return interval(drawn[0]), tuple(by_seed[0].tolist())


def arm_difference(
    names: tuple[str, str],
    expected: Sequence[str],
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    labels: Sequence[str],
    seed: int = 0,
) -> ArmDifference:
    """Compare two arms on the same papers; see `ArmDifference`.

    Raises
    ------
    ValueError
        If the arms have different numbers of seeds and neither has one only.
    """
    size = max(len(first), len(second))
    if {len(first), len(second)} - {1, size}:
        raise ValueError(f"{names[0]} has {len(first)} seeds and {names[1]} has {len(second)}; they have to match")
    first, second = ([*arm] * size if len(arm) == 1 else [*arm] for arm in (first, second))
    truth, one = _positions(expected, first, labels)
    _, other = _positions(expected, second, labels)
    by_seed, drawn = two_level_macro_f1(truth, [one, other], len(labels), seed)
    tests = [compare(expected, a, b, labels, seed) for a, b in zip(first, second, strict=True)]
    return ArmDifference(
        *names,
        difference=interval(drawn[0] - drawn[1]),
        by_seed=tuple((by_seed[0] - by_seed[1]).tolist()),
        mcnemar_p=tuple(test.mcnemar_p for test in tests),
    )


def _positions(
    expected: Sequence[str], predictions: Sequence[Sequence[str]], labels: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    rows = [confusion.label_positions(labels, expected, guess) for guess in predictions]
    return rows[0][0], np.stack([guess for _, guess in rows])
