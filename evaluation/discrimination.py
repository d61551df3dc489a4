"""Do probabilities put the right examples in front? Areas under ROC curves, for labels with and without an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .bootstrap import Score, interval, resample
from .calibration import checked_probabilities


@dataclass(frozen=True)
class Discrimination:
    """Areas under ROC curves with 95 % bootstrap intervals; 1/2 for probabilities that say nothing.

    Parameters
    ----------
    auroc : Score
        One label against the rest, averaged over the labels that occur.
    ordinal_auroc : Score or None
        For labels with an order: how often the expected rank puts two examples of different labels in the right
        order, averaged over pairs of labels (the ordinal c-index). None for labels without one.
    """

    auroc: Score
    ordinal_auroc: Score | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def discrimination(
    probabilities: np.ndarray,
    truth: np.ndarray,
    *,
    order: Sequence[int] | None = None,
    seed: int = 0,
    block: int = 1,
) -> Discrimination:
    """Areas under ROC curves of forecasts over K labels.

    Parameters
    ----------
    probabilities : float array (N, K)
        Rows sum to 1; a row of NaN is no answer and counts as certainty of a wrong label.
    truth : int array (N,) in [0, K)
    order : sequence of int, optional
        The labels from lowest to highest.
    seed, block
        Of the bootstrap; see `bootstrap_weights`.

    References
    ----------
    Van Calster, Van Belle, Vergouwe & Steyerberg (2012), "Discrimination ability of prediction models for ordinal
    outcomes", Biometrical Journal 54: the ordinal c-index.

    Examples
    --------
    >>> sure = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    >>> discrimination(sure, np.array([0, 0, 1, 1])).auroc.value
    0.75
    """
    truth = np.asarray(truth)
    stated, _ = checked_probabilities(probabilities, truth)
    n, kinds = stated.shape
    rank = None
    if order is not None:
        if sorted(order) != list(range(kinds)):
            raise ValueError(f"order must name each of the {kinds} labels once, got {list(order)}")
        rank = stated[:, list(order)] @ np.arange(kinds)

    def statistic(weights: np.ndarray) -> np.ndarray:
        each = [weighted_auroc(stated[:, kind], truth == kind, weights) for kind in range(kinds)]
        pairs = []
        if rank is not None and order is not None:
            for low, high in combinations(order, 2):
                of_pair = (truth == low) | (truth == high)
                pairs.append(weighted_auroc(rank[of_pair], truth[of_pair] == high, weights[:, of_pair]))
        return np.stack([_mean_of_known(each), _mean_of_known(pairs or each)], axis=1)

    drawn = resample(statistic, n, seed, block)
    return Discrimination(interval(drawn[:, 0]), None if rank is None else interval(drawn[:, 1]))


def weighted_auroc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probability that a positive example scores higher than a negative one (ties: half), under each row of weights.

    Parameters
    ----------
    scores : float array (N,)
    positive : bool array (N,)
    weights : float array (R, N)

    Returns
    -------
    float array (R,)
        NaN where one of the two classes is absent.
    """
    if not len(scores):
        return np.full(len(weights), np.nan)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    # The sums of the weights of each group of equal scores, in order.
    sums = [np.add.reduceat(weights[:, order] * side[order], starts, axis=1) for side in (positive, ~positive)]
    wins, losses = sums
    below = np.cumsum(losses, axis=1) - losses
    area = (wins * (below + losses / 2)).sum(axis=1)
    pairs = wins.sum(axis=1) * losses.sum(axis=1)
    return np.divide(area, pairs, out=np.full(len(weights), np.nan), where=pairs > 0)


def _mean_of_known(columns: list[np.ndarray]) -> np.ndarray:
    stacked = np.stack(columns)
    known = np.isfinite(stacked)
    total = np.where(known, stacked, 0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(len(total), np.nan), where=known.any(axis=0))
