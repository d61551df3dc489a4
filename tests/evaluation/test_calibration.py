"""Calibration and discrimination: against scikit-learn, by hand, by theory, and their intervals in simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from scisci_gym.evaluation import calibration as module
from scisci_gym.evaluation.calibration import CLIP, calibration
from scisci_gym.evaluation.metrics import discrimination, weighted_auroc


def forecasts(seed: int, n: int, kinds: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and truths drawn from them: a perfectly calibrated forecaster."""
    rng = np.random.default_rng(seed)
    stated = rng.dirichlet(np.ones(kinds), size=n)
    truth = (rng.random((n, 1)) > stated.cumsum(axis=1)).sum(axis=1)
    return stated, np.minimum(truth, kinds - 1)


@given(st.integers(0, 10_000), st.integers(20, 80), st.integers(2, 4))
def test_scores_equal_scikit_learn(seed: int, n: int, kinds: int) -> None:
    stated, truth = forecasts(seed, n, kinds)
    found = calibration(stated, truth)
    ones = np.eye(kinds)[truth]
    by_label = [brier_score_loss(ones[:, k], stated[:, k], pos_label=1) for k in range(kinds)]
    # scikit-learn's binary score of either label is the one number that is reported for two.
    assert found.brier.value == pytest.approx(by_label[0] if kinds == 2 else sum(by_label))
    kept = np.maximum(stated, CLIP)
    assert found.log_score.value == pytest.approx(
        -log_loss(truth, kept / kept.sum(1, keepdims=True), labels=range(kinds)), abs=1e-4
    )
    right, sure = stated.argmax(axis=1) == truth, stated.max(axis=1)
    observed, mean = calibration_curve(right, sure, n_bins=10)
    full = [one for one in found.bins if one.n]
    assert [one.observed for one in full] == pytest.approx(observed.tolist())
    assert [one.forecast for one in full] == pytest.approx(mean.tolist())
    error = sum(one.n * abs(one.observed - one.forecast) for one in full) / n
    assert found.ece.value == pytest.approx(error)
    if len(set(truth)) == kinds:
        areas = discrimination(stated, truth, order=range(kinds))
        theirs = roc_auc_score(truth, stated[:, 1] if kinds == 2 else stated, multi_class="ovr", average="macro")
        assert areas.auroc.value == pytest.approx(theirs)
        expected_rank = stated @ np.arange(kinds)
        pairs = [
            roc_auc_score(truth[chosen] == high, expected_rank[chosen])
            for low in range(kinds)
            for high in range(low + 1, kinds)
            for chosen in [(truth == low) | (truth == high)]
        ]
        assert areas.ordinal_auroc is not None
        assert areas.ordinal_auroc.value == pytest.approx(np.mean(pairs))


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 3)), min_size=2, max_size=30))
def test_weighted_area_with_ties_equals_scikit_learn(rows: list[tuple[int, bool, int]]) -> None:
    scores, positive, weights = (np.array(column) for column in zip(*rows, strict=True))
    found = weighted_auroc(scores.astype(float), positive, weights[None].astype(float))[0]
    if weights[positive].sum() and weights[~positive].sum():
        assert found == pytest.approx(roc_auc_score(positive, scores, sample_weight=weights))
    else:
        assert np.isnan(found)


def test_by_hand() -> None:
    stated = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2]])
    found = calibration(stated, np.array([0, 1, 2]), prior=np.full(3, 1 / 3))
    # (0.09 + 0.04 + 0.01), (0.01 + 0.04 + 0.01), (0.25 + 0.09 + 0.64)
    assert found.brier.value == pytest.approx((0.14 + 0.06 + 0.98) / 3)
    assert found.brier_skill is not None
    assert found.brier_skill.value == pytest.approx(1 - (0.14 + 0.06 + 0.98) / 3 / (2 / 3))
    assert found.log_score.value == pytest.approx(np.log([0.7, 0.8, 0.2]).mean())
    # 0.7 and 0.8 are right: off by 0.3 and 0.2; 0.5 is wrong: off by 0.5.
    assert found.ece.value == pytest.approx(1.0 / 3)
    assert [one.n for one in found.bins] == [0, 0, 0, 0, 1, 0, 1, 1, 0, 0]


def test_the_prior_has_no_skill_and_says_nothing() -> None:
    prior, truth = np.array([0.2, 0.5, 0.3]), np.repeat([0, 1, 2], [40, 100, 60])
    stated = np.tile(prior, (200, 1))
    found = calibration(stated, truth, prior=prior)
    assert found.brier_skill is not None
    assert found.brier_skill.value == found.brier_skill.low == found.brier_skill.high == 0
    # At its own prevalence the prior is calibrated, and its Brier score is 1 - sum p^2.
    assert found.ece.value == pytest.approx(0)
    assert found.brier.value == pytest.approx(1 - (prior**2).sum())
    areas = discrimination(stated, truth, order=[0, 1, 2])
    assert areas.auroc.value == 0.5
    assert areas.ordinal_auroc is not None
    assert areas.ordinal_auroc.value == 0.5


def test_certainty_of_the_truth_is_perfect() -> None:
    truth = np.array([0, 1, 2, 1])
    found = calibration(np.eye(3)[truth], truth, prior=np.full(3, 1 / 3))
    assert (found.brier.value, found.log_score.value, found.ece.value) == (0, 0, 0)
    assert found.brier_skill is not None
    assert found.brier_skill.value == 1
    assert discrimination(np.eye(3)[truth], truth).auroc.value == 1


def test_no_answer_is_certainty_of_a_wrong_label() -> None:
    stated, truth = np.array([[0.5, 0.3, 0.2], [np.nan] * 3]), np.array([0, 2])
    found = calibration(stated, truth)
    assert found.answered == 0.5
    assert found.brier.value == pytest.approx((0.25 + 0.09 + 0.04 + 2) / 2)
    assert found.log_score.value == pytest.approx((np.log(0.5) + np.log(CLIP)) / 2)


def test_a_rare_event_has_bins_of_its_own_probability() -> None:
    stated = np.array([[0.05, 0.95]] * 20)
    truth = np.array([0] + [1] * 19)
    found = calibration(stated, truth, positive=0)
    assert found.bins[0].n == 20
    assert found.bins[0].observed == pytest.approx(0.05)
    assert found.ece.value == pytest.approx(0)
    wilson = (0.0089, 0.2361)  # The textbook interval of 1 out of 20.
    assert (found.bins[0].observed_low, found.bins[0].observed_high) == pytest.approx(wilson, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["brier", "log_score", "auroc", "ece"])
def test_intervals_cover_at_the_stated_rate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forecaster that is too sure of itself, against its score on 200,000 forecasts."""

    def drawn(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        stated, truth = forecasts(seed, n, 3)
        sharper = stated**2
        return sharper / sharper.sum(axis=1, keepdims=True), truth

    def scored(stated: np.ndarray, truth: np.ndarray, seed: int = 0):
        if name == "auroc":
            return discrimination(stated, truth, seed=seed).auroc
        return getattr(calibration(stated, truth, bins=5, seed=seed), name)

    monkeypatch.setattr("scisci_gym.evaluation.bootstrap.RESAMPLES", 2)
    truth_value = scored(*drawn(10**6, 200_000)).value
    monkeypatch.setattr("scisci_gym.evaluation.bootstrap.RESAMPLES", 400)
    found = [scored(*drawn(trial, 250), seed=trial) for trial in range(400)]
    rate = np.mean([one.low <= truth_value <= one.high for one in found])
    assert 0.92 <= rate <= 0.98, rate


def test_refuses_what_is_no_forecast() -> None:
    with pytest.raises(ValueError, match=r"row 0 is \[0.5, 0.6\]"):
        calibration(np.array([[0.5, 0.6]]), np.array([0]))
    with pytest.raises(ValueError, match="need probabilities"):
        calibration(np.array([[0.5, 0.5]]), np.array([0, 1]))
    with pytest.raises(ValueError, match=r"\[0, 2\)"):
        calibration(np.array([[0.5, 0.5]]), np.array([2]))
    with pytest.raises(ValueError, match="prior has 3"):
        calibration(np.array([[0.5, 0.5]]), np.array([1]), prior=np.full(3, 1 / 3))
    with pytest.raises(ValueError, match="each of the 2 labels"):
        discrimination(np.array([[0.5, 0.5]]), np.array([1]), order=[0])
    assert module.CLIP == 1e-6
