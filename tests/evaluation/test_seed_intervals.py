"""Scores and differences over seeds: against scikit-learn, by hand, and the rate of false verdicts in simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import f1_score

from scisci_gym.evaluation.bootstrap import Score, seed_half_width, seed_interval
from scisci_gym.evaluation.comparison import ArmDifference, arm_difference, arm_scores, scores_resampled

LABELS = ("a", "b", "c")
ANSWERS = st.lists(st.sampled_from(("a", "b", "c", "")), min_size=12, max_size=12)
SEED_SDS = (0.0, 0.01, 0.03, 0.06, 0.1)


@given(st.lists(st.sampled_from(LABELS), min_size=12, max_size=12), ANSWERS, ANSWERS)
def test_scores_by_seed_are_those_of_scikit_learn(truth: list[str], one: list[str], other: list[str]) -> None:
    mean, by_seed = arm_scores(truth, [one, other], LABELS)
    expected = [f1_score(truth, guess, labels=list(LABELS), average="macro", zero_division=0) for guess in (one, other)]
    np.testing.assert_allclose(by_seed, expected, atol=1e-6)
    assert mean.value == pytest.approx(np.mean(expected), abs=1e-6)
    assert 0 <= mean.low <= mean.high <= 1


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
    ("low", "high", "verdict"),
    [
        (0.01, 0.1, "better"),
        (-0.1, -0.01, "worse"),
        (-0.01, 0.1, "not clearly different"),
        (0, 0, "not clearly different"),
    ],
)
def test_a_verdict_needs_an_interval_without_zero(low: float, high: float, verdict: str) -> None:
    assert ArmDifference("x", "y", Score((low + high) / 2, low, high), (0.0,), (0.5,)).verdict == verdict


def test_without_papers_the_interval_is_students_over_seeds() -> None:
    """Differences 0.1, 0.2, 0.3: mean 0.2, s = 0.1, t_2 = 4.3027, so 0.2 -+ 4.3027 * 0.1 / sqrt(3)."""
    found = seed_interval(np.array([0.1, 0.2, 0.3]), np.zeros(2), papers=100)
    assert (found.low, found.high) == pytest.approx((0.2 - 0.24841, 0.2 + 0.24841), abs=1e-5)


def test_with_one_seed_the_interval_is_over_papers_alone() -> None:
    """60 of 100 answers right: the bootstrap variance of a share is p (1 - p) / n = 0.0024, and t_99 = 1.9842."""
    truth, guess = ["a"] * 100, ["a"] * 60 + [""] * 40
    weights = np.random.default_rng(0).binomial(100, 0.6, 200_000) / 100
    found = seed_interval(np.array([0.6]), weights, papers=100)
    assert found.high - found.value == pytest.approx(1.9842 * 0.0024**0.5, rel=0.01)
    assert arm_scores(truth, [guess], ("a",))[0].high < 1


def test_seeds_that_differ_widen_the_interval() -> None:
    """Three seeds that are right on 30, 60 and 90 % of the papers: which seeds one happened to draw matters."""
    rng = np.random.default_rng(0)
    truth = rng.choice(LABELS, 300).tolist()

    def right(share: float) -> list[str]:
        return [label if draw < share else "" for label, draw in zip(truth, rng.random(300), strict=True)]

    apart, _ = arm_scores(truth, [right(0.3), right(0.6), right(0.9)], LABELS)
    alike, _ = arm_scores(truth, [right(0.6), right(0.6), right(0.6)], LABELS)
    assert apart.high - apart.low > 3 * (alike.high - alike.low)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_sd", SEED_SDS)
@pytest.mark.parametrize("shared_sd", [0.0, 0.02, 0.04])
def test_normal_scores_of_equal_arms_are_called_different_at_most_one_time_in_twenty(
    seeds: int, seed_sd: float, shared_sd: float
) -> None:
    """40,000 pairs of equal arms, by the model: a seed's difference = what the papers do to both arms at every seed
    (sd `shared_sd`) + what the two seeds do (sd `seed_sd` each). The rate's own standard error is 0.0011.
    """
    rng, trials = np.random.default_rng(0), 40_000
    by_seed = rng.normal(0, shared_sd, (trials, 1)) + rng.normal(0, 2**0.5 * seed_sd, (trials, seeds))
    half = seed_half_width(by_seed, np.full(trials, shared_sd**2), papers=400)
    assert np.mean(np.abs(by_seed.mean(axis=1)) > half) <= 0.05 + 0.0025


def false_or_true_verdicts(trials: int, seeds: int, seed_sd: float, gap: float, resamples: int) -> float:
    """Share of pairs of arms that are called different, through the functions that a study uses.

    An arm's seed is right on a paper where a normal number exceeds a threshold for its accuracy: 0.55 (the first arm's
    plus `gap`) plus a normal deviation with `seed_sd`. Half the variance of that number belongs to the paper, a quarter
    to the arm's way with the paper, a quarter to the seed. A wrong answer is the next label.
    """
    rng, papers, per_batch = np.random.default_rng(7), 150, 50
    truth, called = rng.integers(3, size=papers), 0
    for _ in range(trials // per_batch):
        shape = (per_batch, 2, seeds, papers)
        accuracy = 0.55 + np.array([gap, 0.0])[None, :, None] + rng.normal(0, seed_sd, shape[:3])
        latent = 0.5**0.5 * rng.normal(size=(per_batch, 1, 1, papers))
        latent = latent + 0.5 * rng.normal(size=(per_batch, 2, 1, papers)) + 0.5 * rng.normal(size=shape)
        right = latent < norm.ppf(np.clip(accuracy, 0.02, 0.98))[..., None]
        guesses = np.where(right, truth, (truth + 1) % 3)
        scores = scores_resampled(truth, guesses.reshape(-1, papers), 3, resamples=resamples)
        differences = scores.reshape(-1, per_batch, 2, seeds)
        differences = differences[:, :, 0] - differences[:, :, 1]
        found = [seed_interval(one[0], one[1:].mean(axis=1), papers) for one in np.moveaxis(differences, 1, 0)]
        called += sum(score.sign != 0 for score in found)
    return called / trials


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_sd", [0.0, 0.03, 0.1])
def test_answers_of_equal_arms_are_called_different_at_most_one_time_in_twenty(seeds: int, seed_sd: float) -> None:
    assert false_or_true_verdicts(1000, seeds, seed_sd, gap=0.0, resamples=100) <= 0.05


def test_pairs_in_both_orders_count_once() -> None:
    """A policy that is right about a pair is right in both orders: the second one is no further evidence."""
    rng = np.random.default_rng(3)
    truth = ["first", "second"] * 60

    def answers() -> list[str]:
        right = np.repeat(rng.random(60) < 0.6, 2)
        return [one if is_right else "" for one, is_right in zip(truth, right, strict=True)]

    labels, trials, called = ("first", "second"), 300, 0
    for _ in range(trials):
        one, other = answers(), answers()
        # The same answers at every seed: papers are the only source of error.
        found = arm_difference(("x", "y"), truth, [one] * 3, [other] * 3, labels, block=2)
        called += found.verdict != "not clearly different"
    assert called / trials <= 0.05 + 2 * (0.05 * 0.95 / trials) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_sd", SEED_SDS)
def test_answers_of_equal_arms_in_many_trials(seeds: int, seed_sd: float) -> None:
    assert false_or_true_verdicts(4_000, seeds, seed_sd, gap=0.0, resamples=400) <= 0.05


@pytest.mark.parametrize(("seeds", "gap", "power"), [(3, 0.25, 0.9), (5, 0.15, 0.9)])
def test_a_real_difference_is_seen(seeds: int, gap: float, power: float) -> None:
    assert false_or_true_verdicts(100, seeds, seed_sd=0.02, gap=gap, resamples=150) >= power
