"""Scores of the probabilities that an arm gives to labels: means over seeds with intervals over seeds and papers."""

from collections.abc import Sequence

import numpy as np

from .bootstrap import Score, divide, resample, seed_interval
from .calibration import checked_probabilities, confidence_gaps
from .metrics import mean_of_defined, weighted_auroc

FORECAST_SCORES = {"auroc": "AUROC", "brier_skill": "Brier skill", "ece": "ECE"}
"""Names of the scores in tables."""
_BOUNDS = ((0.0, 1.0), (-np.inf, 1.0), (0.0, 1.0))


def forecast_scores(
    by_seed: Sequence[np.ndarray], truth: np.ndarray, prior: np.ndarray, block: int = 1
) -> dict[str, Score]:
    """AUROC, Brier skill and expected calibration error of an arm.

    They are those of `discrimination` and `calibration` for each seed, and their intervals those of `seed_interval`.

    Parameters
    ----------
    by_seed : sequence of float arrays (N, K)
        Probabilities of the labels for each seed; a row of NaN is no answer.
    truth : int array (N,) in [0, K)
    prior : float array (K,)
        Shares of the labels in training: the reference of the skill.
    block : int
        How many neighbours are resampled together; see `bootstrap_weights`.

    Raises `ValueError` as `calibration` does.
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
        for at, (name, bounds) in enumerate(zip(FORECAST_SCORES, _BOUNDS, strict=True))
    }
