"""Two sets of answers to the same examples: which is better, and could it be chance?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from . import confusion
from .intervals import Score, interval


@dataclass(frozen=True)
class Comparison:
    """A paired comparison; differences are first minus second, so above 0 the first is better.

    Parameters
    ----------
    n : int
        Examples.
    mcnemar_p : float in (0, 1]
        Two-sided exact McNemar test: of the examples that only one of them gets right, is the share of each 1/2?
    accuracy_difference, macro_f1_difference : Score
        With 95 % intervals of the paired bootstrap.
    n_both_right, n_only_first_right, n_only_second_right, n_neither_right : int
    """

    n: int
    mcnemar_p: float
    accuracy_difference: Score
    macro_f1_difference: Score
    n_both_right: int
    n_only_first_right: int
    n_only_second_right: int
    n_neither_right: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(
    expected: Sequence[str],
    first_predictions: Sequence[str],
    second_predictions: Sequence[str],
    labels: Sequence[str],
    seed: int = 0,
    block: int = 1,
) -> Comparison:
    """Compare two sets of predictions for the same examples.

    Parameters
    ----------
    expected, first_predictions, second_predictions : sequences of str, length N >= 1
        In the same order. A prediction that is not in `labels` (such as "") counts as wrong.
    labels : sequence of str
    seed : int
        Of the bootstrap, which resamples examples with both their answers 2,000 times.
    block : int
        How many neighbours are resampled together, such as both orders of a pair. McNemar's test takes answers to be
        independent; with blocks its p is too small and the interval is what counts.

    Raises
    ------
    ValueError
        If the lengths differ or are 0, or an expected label is not among the labels.

    References
    ----------
    McNemar (1947), Psychometrika 12; the exact form is the binomial test on the discordant pairs.

    Examples
    --------
    >>> found = compare(["a", "b", "a", "b"], ["a", "b", "a", "a"], ["b", "b", "b", ""], ["a", "b"])
    >>> found.n_only_first_right, found.n_only_second_right, found.mcnemar_p
    (2, 0, 0.5)
    >>> found.accuracy_difference.value
    0.5
    """
    truth, first = confusion.label_positions(labels, expected, first_predictions)
    _, second = confusion.label_positions(labels, expected, second_predictions)
    kinds = len(labels)
    shape = (kinds, kinds + 1, kinds + 1)
    cells = np.ravel_multi_index((truth, first, second), shape)
    joint = confusion.resampled(cells, shape, np.random.default_rng(seed), block)
    one, other = joint.sum(axis=3), joint.sum(axis=2)
    first_right, second_right = first == truth, second == truth
    only_first, only_second = int((first_right & ~second_right).sum()), int((second_right & ~first_right).sum())
    discordant = only_first + only_second
    return Comparison(
        n=len(truth),
        mcnemar_p=float(binomtest(only_first, discordant).pvalue) if discordant else 1.0,
        accuracy_difference=interval(confusion.accuracy(one) - confusion.accuracy(other)),
        macro_f1_difference=interval(confusion.macro_f1(one) - confusion.macro_f1(other)),
        n_both_right=int((first_right & second_right).sum()),
        n_only_first_right=only_first,
        n_only_second_right=only_second,
        n_neither_right=int((~first_right & ~second_right).sum()),
    )
