"""Scores and differences over seeds against scikit-learn, by hand, and in simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from scisci_gym.recipes.evaluation.intervals import Score
from scisci_gym.recipes.study.statistics import ArmDifference, arm_difference, arm_scores

LABELS = ("a", "b", "c")
ANSWERS = st.lists(st.sampled_from(("a", "b", "c", "")), min_size=12, max_size=12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(LABELS), min_size=12, max_size=12), ANSWERS, ANSWERS)
def test_scores_by_seed_are_those_of_scikit_learn(truth: list[str], one: list[str], other: list[str]) -> None:
    mean, by_seed = arm_scores(truth, [one, other], LABELS)
    expected = [f1_score(truth, guess, labels=list(LABELS), average="macro", zero_division=0) for guess in (one, other)]
    np.testing.assert_allclose(by_seed, expected)
    assert mean.value == pytest.approx(np.mean(expected))
    assert mean.low <= mean.high


def test_an_arm_against_itself_differs_by_nothing() -> None:
    truth, guess = ["a", "b", "c"] * 10, ["a", "b", "b"] * 10
    found = arm_difference(("x", "y"), truth, [guess, guess], [guess, guess], LABELS)
    assert (found.difference.low, found.difference.value, found.difference.high) == (0.0, 0.0, 0.0)
    assert found.mcnemar_p == (1.0, 1.0)
    assert found.verdict == "not clearly different"


def test_a_baseline_without_seeds_is_compared_with_every_seed() -> None:
    truth = ["a", "b", "c"] * 10
    found = arm_difference(("x", "y"), truth, [truth, ["a"] * 30], [["a"] * 30], LABELS)
    assert found.by_seed == pytest.approx((1 - 1 / 6, 0.0))
    with pytest.raises(ValueError, match="3 seeds"):
        arm_difference(("x", "y"), truth, [truth] * 3, [truth] * 2, LABELS)


@pytest.mark.parametrize(
    ("low", "high", "by_seed", "verdict"),
    [
        (0.01, 0.1, (0.05, 0.06), "better"),
        (0.01, 0.1, (0.12, -0.01), "not clearly different"),
        (-0.1, -0.01, (-0.05, -0.06), "worse"),
        (-0.01, 0.1, (0.05, 0.06), "not clearly different"),
    ],
)
def test_a_verdict_needs_an_interval_without_zero_and_seeds_that_agree(low, high, by_seed, verdict) -> None:
    difference = Score(float(np.mean(by_seed)), low, high)
    assert ArmDifference("x", "y", difference, by_seed, (0.5, 0.5)).verdict == verdict


def test_two_levels_are_wider_than_papers_alone_when_seeds_differ() -> None:
    """Three seeds that are right on 30, 60 and 90 % of the papers: which seeds one happened to draw matters."""
    rng = np.random.default_rng(0)
    truth = rng.choice(LABELS, 300).tolist()

    def right(share: float) -> list[str]:
        return [label if draw < share else "" for label, draw in zip(truth, rng.random(300), strict=True)]

    apart, _ = arm_scores(truth, [right(0.3), right(0.6), right(0.9)], LABELS)
    alike, _ = arm_scores(truth, [right(0.6), right(0.6), right(0.6)], LABELS)
    assert apart.high - apart.low > 3 * (alike.high - alike.low)


def test_arms_of_equal_quality_are_seldom_called_different() -> None:
    """Both are right on half the papers, independently, with three seeds each: 5 % of 60 trials and some slack."""
    rng, called = np.random.default_rng(1), 0
    for _ in range(60):
        truth = rng.choice(LABELS, 150)

        def half(truth: np.ndarray = truth) -> list[str]:
            return np.where(rng.random(len(truth)) < 0.5, truth, "").tolist()

        arms = [[half() for _ in range(3)] for _ in range(2)]
        called += arm_difference(("x", "y"), truth.tolist(), *arms, LABELS).verdict != "not clearly different"
    assert called <= 6
