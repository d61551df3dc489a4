"""Scores of a classifier over labels, with bootstrap intervals: accuracy, macro-F1, MCC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

RESAMPLES = 2000


@dataclass(frozen=True)
class Score:
    """A value with the ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def brief(self) -> str:
        """Value and half the width of the interval, for tables that have to fit a terminal."""
        return f"{self.value:.3f} ±{(self.high - self.low) / 2:.2f}"


@dataclass(frozen=True)
class Scores:
    """Scores of one set of answers.

    Parameters
    ----------
    n : int
        Examples.
    answered : float in [0, 1]
        Share with a label that could be parsed. The others count as wrong everywhere.
    accuracy, macro_f1, mcc : Score
    confusion : list of list of int
        Row: truth; column: predicted label, with a last column for "no label".
    """

    n: int
    answered: float
    accuracy: Score
    macro_f1: Score
    mcc: Score
    confusion: list[list[int]]

    def to_json(self) -> dict:
        return asdict(self)


def score(truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str], seed: int = 0) -> Scores:
    """Scores of predicted labels.

    Parameters
    ----------
    truth, predicted : sequences of str, length N >= 1
        A prediction that is not in `labels` (such as "") is no answer.
    labels : sequence of str
    seed : int
        Of the bootstrap, which resamples examples 2,000 times and takes the 2.5th and 97.5th percentiles.

    Raises
    ------
    ValueError
        If the lengths differ, are 0, or a truth is not among the labels.

    Examples
    --------
    >>> score(["a", "b", "a"], ["a", "b", ""], ["a", "b"]).accuracy.value
    0.6666666666666666
    """
    if len(truth) != len(predicted) or not truth:
        raise ValueError(f"truth and predicted need one length above 0, got {len(truth)} and {len(predicted)}")
    place = {label: at for at, label in enumerate(labels)}
    unknown = sorted(set(truth) - set(place))
    if unknown:
        raise ValueError(f"truth has {unknown[0]!r}, which is not one of {', '.join(labels)}")
    confusion = np.zeros((len(labels), len(labels) + 1), dtype=np.int64)
    for right, guess in zip(truth, predicted, strict=True):
        confusion[place[right], place.get(guess, len(labels))] += 1
    # The scores depend on the examples through the confusion matrix alone, so resampling examples is the same as
    # drawing matrices from a multinomial over its cells.
    draws = np.random.default_rng(seed).multinomial(len(truth), confusion.ravel() / len(truth), size=RESAMPLES)
    stack = np.concatenate([confusion[None], draws.reshape(-1, *confusion.shape)])
    return Scores(
        n=len(truth),
        answered=float(confusion[:, :-1].sum() / len(truth)),
        accuracy=_interval(_accuracy(stack)),
        macro_f1=_interval(_macro_f1(stack)),
        mcc=_interval(_mcc(stack)),
        confusion=confusion.tolist(),
    )


def _interval(values: np.ndarray) -> Score:
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return Score(float(values[0]), float(low), float(high))


def _accuracy(stack: np.ndarray) -> np.ndarray:
    return np.trace(stack[:, :, :-1], axis1=1, axis2=2) / stack.sum(axis=(1, 2))


def _macro_f1(stack: np.ndarray) -> np.ndarray:
    right = np.diagonal(stack[:, :, :-1], axis1=1, axis2=2)
    total = stack.sum(axis=2) + stack.sum(axis=1)[:, :-1]
    return np.divide(2 * right, total, out=np.zeros(right.shape), where=total > 0).mean(axis=1)


def _mcc(stack: np.ndarray) -> np.ndarray:
    """Multi-class Matthews correlation (Gorodkin 2004); 0 where truth or predictions are constant."""
    n = stack.sum(axis=(1, 2)).astype(float)
    right = np.trace(stack[:, :, :-1], axis1=1, axis2=2)
    truth, guess = stack.sum(axis=2), stack.sum(axis=1)
    covariance = right * n - (truth * guess[:, :-1]).sum(axis=1)
    spread = (n**2 - (truth**2).sum(axis=1)) * (n**2 - (guess**2).sum(axis=1))
    return np.divide(covariance, np.sqrt(spread), out=np.zeros(len(stack)), where=spread > 0)
