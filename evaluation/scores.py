"""Scores of a classifier over labels, with bootstrap intervals, at natural and at balanced prevalence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from . import confusion
from .bootstrap import Score, interval, resampled_counts

__all__ = ["BalancedScores", "Score", "Scores", "score"]


@dataclass(frozen=True)
class BalancedScores:
    """Scores at balanced prevalence: examples are weighted by the inverse frequency of their class among them.

    So every class has the same weight, as in a test set with as many examples of each. Accuracy is then the balanced
    accuracy (mean recall).
    """

    accuracy: Score
    macro_f1: Score
    mcc: Score


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
        At natural prevalence: every example counts the same.
    confusion : list of list of int
        Row: truth; column: predicted label, with a last column for "no label".
    balanced : BalancedScores
    """

    n: int
    answered: float
    accuracy: Score
    macro_f1: Score
    mcc: Score
    confusion: list[list[int]]
    balanced: BalancedScores

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score(
    truth: Sequence[str], predicted: Sequence[str], labels: Sequence[str], seed: int = 0, block: int = 1
) -> Scores:
    """Scores of predicted labels.

    Parameters
    ----------
    truth, predicted : sequences of str, length N >= 1
        A prediction that is not in `labels` (such as "") is no answer.
    labels : sequence of str
    seed : int
        Of the bootstrap, which resamples examples 2,000 times and takes the 2.5th and 97.5th percentiles.
    block : int
        How many neighbours are resampled together, such as both orders of a pair.

    Raises
    ------
    ValueError
        If the lengths differ, are 0, or a truth is not among the labels.

    Examples
    --------
    >>> score(["a", "b", "a"], ["a", "b", ""], ["a", "b"]).accuracy.value
    0.6666666666666666
    """
    true_at, guess_at = confusion.label_positions(labels, truth, predicted)
    shape = (len(labels), len(labels) + 1)
    stack = resampled_counts(np.ravel_multi_index((true_at, guess_at), shape), shape, seed, block)
    even = confusion.balanced(stack)
    return Scores(
        n=len(truth),
        answered=float(stack[0, :, :-1].sum() / len(truth)),
        accuracy=interval(confusion.accuracy(stack)),
        macro_f1=interval(confusion.macro_f1(stack)),
        mcc=interval(confusion.mcc(stack)),
        confusion=stack[0].astype(int).tolist(),
        balanced=BalancedScores(
            accuracy=interval(confusion.balanced_accuracy(stack)),
            macro_f1=interval(confusion.macro_f1(even)),
            mcc=interval(confusion.mcc(even)),
        ),
    )
