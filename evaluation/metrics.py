"""Classification scores with bootstrap intervals: accuracy, macro-F1, MCC, and areas under ROC curves.

scikit-learn has the same formulas for one set of examples and is the oracle of the tests. Here they are computed on
thousands of resamples at once: 2,000 calls of `f1_score`, `matthews_corrcoef` or `roc_auc_score` take seconds.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .bootstrap import Score, divide, interval, resample, resampled_counts
from .calibration import checked_probabilities


@dataclass(frozen=True)
class BalancedScores:
    """Scores at balanced prevalence: every example is weighted by the inverse frequency of its class.

    Accuracy is then the balanced accuracy (mean recall of the classes that occur).
    """

    accuracy: Score
    macro_f1: Score
    mcc: Score


@dataclass(frozen=True)
class Scores:
    """Scores of one set of predicted labels for `n` examples.

    `answered` is the share of predictions that are one of the labels; the others count as wrong everywhere. `accuracy`,
    `macro_f1` and `mcc` are at natural prevalence: every example has the same weight. Rows of the `confusion` are true
    labels; columns are predicted labels, with a last column for "no label".
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
    """Scores of predicted labels, with 95 % percentile intervals over 2,000 resamples of the examples.

    `truth` and `predicted` have the same length N >= 1. A prediction that is not in `labels` (such as "") is no answer.
    `seed` and `block` are those of the bootstrap; see `bootstrap_weights`.

    Raises `ValueError` if the lengths differ, are 0, or a truth is not among the labels.

    Examples
    --------
    >>> score(["a", "b", "a"], ["a", "b", ""], ["a", "b"]).accuracy.value
    0.6666666666666666
    """
    cells = np.ravel_multi_index(label_positions(labels, truth, predicted), (len(labels), len(labels) + 1))
    stack = resampled_counts(cells, (len(labels), len(labels) + 1), seed, block)
    even = balanced(stack)
    return Scores(
        n=len(truth),
        answered=float(stack[0, :, :-1].sum() / len(truth)),
        accuracy=interval(accuracy(stack)),
        macro_f1=interval(macro_f1(stack)),
        mcc=interval(mcc(stack)),
        confusion=stack[0].astype(int).tolist(),
        balanced=BalancedScores(interval(accuracy(even)), interval(macro_f1(even)), interval(mcc(even))),
    )


def label_positions(labels: Sequence[str], truth: Sequence[str], predicted: Sequence[str]) -> tuple[np.ndarray, ...]:
    """Truth and predictions as positions in `labels`; a prediction that is none of them gets the position K.

    Raises what `score` raises.
    """
    if len(truth) != len(predicted) or not len(truth):
        raise ValueError(f"truth and predicted need one length above 0, got {len(truth)} and {len(predicted)}")
    position = {label: index for index, label in enumerate(labels)}
    unknown = sorted(set(truth) - set(position))
    if unknown:
        raise ValueError(f"truth has {unknown[0]!r}, which is not one of {', '.join(labels)}")
    return np.array([position[t] for t in truth]), np.array([position.get(p, len(labels)) for p in predicted])


def balanced(stack: np.ndarray) -> np.ndarray:
    """Confusion matrices (R, K, K + 1) at balanced prevalence: each row that is not empty sums to 1."""
    return divide(stack, stack.sum(axis=2, keepdims=True), 0.0)


def accuracy(stack: np.ndarray) -> np.ndarray:
    """Share of right answers (R,) in confusion matrices (R, K, K + 1), whose last column is "no label"."""
    return np.trace(stack[:, :, :-1], axis1=1, axis2=2) / stack.sum(axis=(1, 2))


def macro_f1(stack: np.ndarray) -> np.ndarray:
    """Mean F1 over all labels (R,); 0 for a label that is neither true nor predicted."""
    right = np.diagonal(stack[:, :, :-1], axis1=1, axis2=2)
    total = stack.sum(axis=2) + stack.sum(axis=1)[:, :-1]
    return divide(2 * right, total, 0.0).mean(axis=1)


def mcc(stack: np.ndarray) -> np.ndarray:
    """Multi-class Matthews correlation (Gorodkin 2004), (R,); 0 where truth or predictions are constant."""
    stack = stack.astype(float)
    n = stack.sum(axis=(1, 2))
    right = np.trace(stack[:, :, :-1], axis1=1, axis2=2)
    truth, predicted = stack.sum(axis=2), stack.sum(axis=1)
    covariance = right * n - (truth * predicted[:, :-1]).sum(axis=1)
    spread = (n**2 - (truth**2).sum(axis=1)) * (n**2 - (predicted**2).sum(axis=1))
    # Rounding leaves a trace where a class was weighted by a fraction and the predictions are constant.
    return divide(covariance, np.sqrt(np.where(spread > 1e-12 * n**4, spread, 0)), 0.0)


@dataclass(frozen=True)
class Discrimination:
    """Areas under ROC curves with 95 % bootstrap intervals; 1/2 for probabilities that carry no information.

    `auroc` is that of one label against the rest, averaged over the labels that occur. `ordinal_auroc` says how often
    the expected rank puts two examples of different labels in the right order, averaged over pairs of labels (the
    ordinal c-index); None for labels without an order.
    """

    auroc: Score
    ordinal_auroc: Score | None


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
    seed, block : int
        Of the bootstrap; see `bootstrap_weights`.

    Raises `ValueError` as `calibration` does, or if `order` does not name each label once.

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
    if order is not None and sorted(order) != list(range(kinds)):
        raise ValueError(f"order must name each of the {kinds} labels once, got {list(order)}")

    rank = stated @ np.argsort(range(kinds) if order is None else order)
    pairs = [] if order is None else list(combinations(order, 2))
    members = [(truth == low) | (truth == high) for low, high in pairs]

    def statistic(weights: np.ndarray) -> np.ndarray:
        each = [weighted_auroc(stated[:, kind], truth == kind, weights) for kind in range(kinds)]
        ordinal = [
            weighted_auroc(rank[either], truth[either] == high, weights[:, either])
            for (_, high), either in zip(pairs, members, strict=True)
        ]
        return np.stack([mean_of_defined(np.stack(areas)) for areas in (each, ordinal or each)], axis=1)

    drawn = resample(statistic, n, seed, block)
    return Discrimination(interval(drawn[:, 0]), None if order is None else interval(drawn[:, 1]))


def weighted_auroc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Probability that a positive example scores higher than a negative one (ties: half), under each row of weights.

    From scores (N,), a bool array (N,) and weights (R, N) to areas (R,), NaN where one of the two classes is absent.
    """
    if not len(scores):
        return np.full(len(weights), np.nan)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    # The sums of the weights of each group of equal scores, in order.
    wins, losses = (np.add.reduceat(weights[:, order] * side[order], starts, axis=1) for side in (positive, ~positive))
    below = np.cumsum(losses, axis=1) - losses
    area = (wins * (below + losses / 2)).sum(axis=1)
    return divide(area, wins.sum(axis=1) * losses.sum(axis=1))


def mean_of_defined(areas: np.ndarray) -> np.ndarray:
    """Mean over the first axis of the values that are not NaN; NaN where there is none."""
    defined = np.isfinite(areas)
    return divide(np.where(defined, areas, 0).sum(axis=0), defined.sum(axis=0))
