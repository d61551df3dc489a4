"""Scores of an arm's probabilities: of one seed those of `calibration` and `discrimination`, of several their means."""

import numpy as np
import pytest

from scisci_gym.evaluation.calibration import calibration
from scisci_gym.evaluation.comparison import forecast_scores
from scisci_gym.evaluation.metrics import discrimination

RNG = np.random.default_rng(0)
TRUTH = RNG.integers(3, size=200)
PRIOR = np.array([0.2, 0.3, 0.5])


def forecasts(weight: float, seed: int) -> np.ndarray:
    """Noise, with so much weight on the truth."""
    noise = np.random.default_rng(seed).dirichlet(np.ones(3), size=len(TRUTH))
    return weight * np.eye(3)[TRUTH] + (1 - weight) * noise


def test_one_seed_has_the_scores_of_its_probabilities() -> None:
    given = forecasts(0.3, 1)
    given[0] = np.nan
    found, one = forecast_scores([given], TRUTH, PRIOR), calibration(given, TRUTH, prior=PRIOR)
    assert one.brier_skill is not None
    assert found["brier_skill"].value == pytest.approx(one.brier_skill.value)
    assert found["ece"].value == pytest.approx(one.ece.value)
    assert found["auroc"].value == pytest.approx(discrimination(given, TRUTH).auroc.value)
    assert all(score.low < score.value < score.high for score in found.values())


def test_several_seeds_have_the_mean_and_seeds_that_differ_widen_the_interval() -> None:
    apart, alike = [forecasts(weight, 1) for weight in (0.1, 0.3, 0.5)], [forecasts(0.3, 1)] * 3
    found, narrow = forecast_scores(apart, TRUTH, PRIOR), forecast_scores(alike, TRUTH, PRIOR)
    for name, score in found.items():
        each = [forecast_scores([one], TRUTH, PRIOR)[name].value for one in apart]
        assert score.value == pytest.approx(np.mean(each))
    assert found["auroc"].high - found["auroc"].low > narrow["auroc"].high - narrow["auroc"].low


def test_the_prior_has_no_skill_and_the_truth_all() -> None:
    prior, truth = np.tile(PRIOR, (len(TRUTH), 1)), np.eye(3)[TRUTH]
    assert forecast_scores([prior], TRUTH, PRIOR)["brier_skill"].value == pytest.approx(0)
    assert forecast_scores([prior], TRUTH, PRIOR)["auroc"].value == 0.5
    assert forecast_scores([truth], TRUTH, PRIOR)["brier_skill"].value == 1
