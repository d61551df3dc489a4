"""Paired comparison of two policies on the same examples, and scores and differences of arms with several seeds."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from .bootstrap import Score, divide, interval, resample, resampled_counts, seed_interval
from .calibration import checked_probabilities, confidence_gaps
from .metrics import accuracy, label_positions, macro_f1, mcc, mean_of_defined, weighted_auroc

METRICS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray], float]] = {
    "macro_f1": ("macro-F1", macro_f1, 0.0),
    "mcc": ("MCC", mcc, -1.0),
    "accuracy": ("accuracy", accuracy, 0.0),
}
"""What arms can be compared in: the score's name in tables, its function of confusion matrices, its lowest value."""
FORECAST_SCORES = {"auroc": "AUROC", "brier_skill": "Brier skill", "ece": "ECE"}
"""Scores of the probabilities that an arm gives to labels, and their names in tables."""
_FORECAST_BOUNDS = ((0.0, 1.0), (-np.inf, 1.0), (0.0, 1.0))


@dataclass(frozen=True)
class Comparison:
    """A paired comparison; differences are first minus second, so above 0 the first is better.

    `mcnemar_p`, in (0, 1], is from the two-sided exact McNemar test: of the examples that only one of them gets right,
    is the share of each 1/2? The differences have 95 % intervals of the paired bootstrap.
    """

    n: int
    mcnemar_p: float
    accuracy_difference: Score
    macro_f1_difference: Score
    n_both_right: int
    n_only_first_right: int
    n_only_second_right: int
    n_neither_right: int


def compare(
    expected: Sequence[str],
    first_predictions: Sequence[str],
    second_predictions: Sequence[str],
    labels: Sequence[str],
    seed: int = 0,
    block: int = 1,
) -> Comparison:
    """Compare two sets of predictions for the same N >= 1 examples, all in the same order.

    A prediction that is not in `labels` (such as "") counts as wrong. The bootstrap resamples examples with both their
    answers 2,000 times, `block` neighbours together, such as both orders of a pair. McNemar's test takes answers to be
    independent; with blocks its p is too small and the interval is what counts.

    Raises `ValueError` if the lengths differ or are 0, or an expected label is not among the labels.

    References
    ----------
    McNemar (1947), Psychometrika 12; the exact form is the binomial test on the discordant pairs.

    Examples
    --------
    >>> result = compare(["a", "b", "a", "b"], ["a", "b", "a", "a"], ["b", "b", "b", ""], ["a", "b"])
    >>> result.n_only_first_right, result.n_only_second_right, result.mcnemar_p
    (2, 0, 0.5)
    >>> result.accuracy_difference.value
    0.5
    """
    truth, first = label_positions(labels, expected, first_predictions)
    _, second = label_positions(labels, expected, second_predictions)
    kinds = len(labels)
    shape = (kinds, kinds + 1, kinds + 1)
    cells = np.ravel_multi_index((truth, first, second), shape)
    joint = resampled_counts(cells, shape, seed, block)
    matrices = joint.sum(axis=3), joint.sum(axis=2)
    right = first == truth, second == truth
    # How many examples neither, only the second, only the first, and both get right.
    neither, only_second, only_first, both = np.bincount(2 * right[0] + right[1], minlength=4).tolist()
    return Comparison(
        n=len(truth),
        mcnemar_p=_mcnemar(*right),
        accuracy_difference=interval(accuracy(matrices[0]) - accuracy(matrices[1])),
        macro_f1_difference=interval(macro_f1(matrices[0]) - macro_f1(matrices[1])),
        n_both_right=both,
        n_only_first_right=only_first,
        n_only_second_right=only_second,
        n_neither_right=neither,
    )


@dataclass(frozen=True)
class ArmDifference:
    """First arm minus second, in a score of `METRICS`, on the same papers.

    `difference` is that of the means over seeds, with the interval over seeds and papers of `seed_interval`. `by_seed`
    has the difference, and `mcnemar_p` the exact McNemar p, for every seed. Where one arm has no seeds (the base model,
    a baseline) it is the same each time. With one seed the interval is over papers alone, and the verdict is about
    these two policies, not about their arms.
    """

    first: str
    second: str
    difference: Score
    by_seed: tuple[float, ...]
    mcnemar_p: tuple[float, ...]
    metric: str = "macro_f1"

    @property
    def verdict(self) -> str:
        """ "better" or "worse" where the 95 % interval excludes 0, else "not clearly different"."""
        return ("not clearly different", "better", "worse")[self.difference.sign]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def scores_resampled(
    truth: np.ndarray,
    guesses: np.ndarray,
    kinds: int,
    metric: str = "macro_f1",
    seed: int = 0,
    resamples: int | None = None,
    block: int = 1,
) -> np.ndarray:
    """A score of several sets of answers on the same papers and on the same resamples of them.

    From the positions of N true labels and an int array (M, N) of predictions, in which K, the number of `kinds` of
    labels, stands for no answer, to a float array (1 + resamples, M). `metric` is a name of `METRICS`, `block` is as in
    `compare`.
    """
    shape, of = (kinds, kinds + 1), METRICS[metric][1]
    # Which cell of its confusion matrix each paper falls in, as columns of zeros and ones.
    places = np.ravel_multi_index((np.broadcast_to(truth, guesses.shape), guesses), shape)
    cells = np.moveaxis(np.eye(kinds * (kinds + 1), dtype=np.float32)[places], 0, 1).reshape(len(truth), -1)

    def scores(weights: np.ndarray) -> np.ndarray:
        matrices = (weights.astype(np.float32) @ cells).reshape(-1, *shape)
        return of(matrices.astype(float)).reshape(len(weights), -1)

    return resample(scores, len(truth), seed, block, resamples)


def arm_scores(
    expected: Sequence[str],
    predictions: Sequence[Sequence[str]],
    labels: Sequence[str],
    block: int = 1,
    metric: str = "macro_f1",
) -> tuple[Score, tuple[float, ...]]:
    """A score of an arm: the mean over seeds with its interval over seeds and papers, and every seed's.

    `predictions` are sequences of labels, one for each seed; `block` is as in `compare`, `metric` a name of `METRICS`.
    """
    truth, guesses = _positions(expected, predictions, labels)
    drawn = scores_resampled(truth, guesses, len(labels), metric, block=block)
    bounds = (METRICS[metric][2], 1.0)
    return seed_interval(drawn[0], drawn[1:].mean(axis=1), len(truth) // block, bounds), tuple(drawn[0].tolist())


def forecast_scores(
    by_seed: Sequence[np.ndarray], truth: np.ndarray, prior: np.ndarray, block: int = 1
) -> dict[str, Score]:
    """AUROC, Brier skill and expected calibration error of an arm.

    They are those of `discrimination` and `calibration` for each seed, and their intervals those of `seed_interval`.

    `by_seed` are float arrays (N, K), the probabilities of the labels for each seed; a row of NaN is no answer. `truth`
    is an int array (N,) in [0, K), and `prior`, float (K,), has the shares of the labels in training: the reference of
    the skill. `block` is as in `compare`. Raises `ValueError` as `calibration` does.
    """
    truth = np.asarray(truth)
    stated = [checked_probabilities(np.asarray(each), truth)[0] for each in by_seed]
    n, kinds = stated[0].shape
    right = np.eye(kinds)[truth]
    reference = ((np.asarray(prior) - right) ** 2).sum(axis=1)
    losses = [((each - right) ** 2).sum(axis=1) for each in stated]
    gaps = [confidence_gaps(each.max(axis=1), each.argmax(axis=1) == truth)[0] for each in stated]

    def statistic(weights: np.ndarray) -> np.ndarray:
        areas = [
            mean_of_defined(np.stack([weighted_auroc(each[:, kind], truth == kind, weights) for kind in range(kinds)]))
            for each in stated
        ]
        skills = [1 - divide(weights @ loss, weights @ reference) for loss in losses]
        errors = [np.abs(weights @ gap).sum(axis=1) / weights.sum(axis=1) for gap in gaps]
        return np.stack([np.stack(each, axis=1) for each in (areas, skills, errors)], axis=2)

    drawn = resample(statistic, n, block=block)
    return {
        name: seed_interval(drawn[0, :, at], drawn[1:, :, at].mean(axis=1), n // block, bounds)
        for at, (name, bounds) in enumerate(zip(FORECAST_SCORES, _FORECAST_BOUNDS, strict=True))
    }


def arm_difference(
    names: tuple[str, str],
    expected: Sequence[str],
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    labels: Sequence[str],
    block: int = 1,
    metric: str = "macro_f1",
) -> ArmDifference:
    """Compare two arms on the same papers; see `ArmDifference`, `METRICS`, and `compare` for `block`.

    Raises `ValueError` if the arms have different numbers of seeds and neither has one only.
    """
    size = max(len(first), len(second))
    if {len(first), len(second)} - {1, size}:
        raise ValueError(f"{names[0]} has {len(first)} seeds and {names[1]} has {len(second)}; they have to match")
    first, second = ([*arm] * size if len(arm) == 1 else [*arm] for arm in (first, second))
    truth, guesses = _positions(expected, [*first, *second], labels)
    scores = scores_resampled(truth, guesses, len(labels), metric, block=block)
    drawn = scores[:, :size] - scores[:, size:]
    right, widest = guesses == truth, 1 - METRICS[metric][2]
    return ArmDifference(
        *names,
        difference=seed_interval(drawn[0], drawn[1:].mean(axis=1), len(truth) // block, (-widest, widest)),
        by_seed=tuple(drawn[0].tolist()),
        mcnemar_p=tuple(_mcnemar(one, other) for one, other in zip(right[:size], right[size:], strict=True)),
        metric=metric,
    )


def _mcnemar(first_right: np.ndarray, second_right: np.ndarray) -> float:
    discordant = first_right != second_right
    return float(binomtest(int((first_right & discordant).sum()), n).pvalue) if (n := int(discordant.sum())) else 1.0


def _positions(
    expected: Sequence[str], predictions: Sequence[Sequence[str]], labels: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    rows = [label_positions(labels, expected, guess) for guess in predictions]
    return rows[0][0], np.stack([guess for _, guess in rows])
