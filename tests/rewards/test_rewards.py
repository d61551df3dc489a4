"""The rewards as worked examples, and what must hold for every input."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.rewards import (
    CORRECT,
    WRONG,
    RewardBreakdown,
    adaptation,
    brier_reward,
    brier_skill,
    brier_skill_floor,
    correctness,
    distance_reward,
    group_diagnostics,
    ordered_correctness,
    rank_distance_reward,
)

LABELS = ("disruptive", "consolidating", "neutral")
MAYBE_LABEL = st.sampled_from([*LABELS, None])
SHARES = st.lists(st.floats(0.001, 1), min_size=2, max_size=5).map(lambda xs: [x / math.fsum(xs) for x in xs])


def test_correctness_is_plus_or_minus_one_and_no_answer_is_wrong():
    assert correctness("neutral", "neutral") == CORRECT == 1.0
    assert correctness("disruptive", "neutral") == correctness(None, "neutral") == WRONG == -1.0


@given(MAYBE_LABEL, MAYBE_LABEL, st.sampled_from(LABELS))
def test_adaptation_is_paid_only_for_a_right_final_label(first, final, truth):
    bonus = adaptation(first, final, truth)
    assert bonus in (0.0, 0.1, 0.2)
    assert (bonus > 0) == (final == truth)


def test_holding_a_right_answer_pays_more_than_correcting_a_wrong_one():
    held, revised = adaptation("neutral", "neutral", "neutral"), adaptation("disruptive", "neutral", "neutral")
    assert held == 0.2
    assert revised == 0.1


def test_the_best_composite_is_exactly_one_and_a_half():
    assert RewardBreakdown(1.0, 0.3, 0.2).total == 1.5
    assert RewardBreakdown(-1.0).total == -1.0


@pytest.mark.parametrize("parts", [(1.1, 0, 0), (1, 0.31, 0), (1, -0.01, 0), (1, 0, 0.21), (math.nan, 0, 0)])
def test_a_part_outside_its_range_is_refused(parts):
    with pytest.raises(ValueError, match="must be in"):
        RewardBreakdown(*parts)


@given(SHARES, st.data())
def test_brier_reward_is_bounded_and_the_textbook_sum(shares, data):
    truth = data.draw(st.integers(0, len(shares) - 1))
    reward = brier_reward(shares, truth)
    assert -1.0 <= reward <= 1.0
    textbook = 1 - sum((p - (k == truth)) ** 2 for k, p in enumerate(shares))
    assert reward == pytest.approx(textbook, abs=1e-12)


@given(SHARES, st.data())
def test_brier_reward_is_strictly_proper(belief, data):
    """Whoever believes `belief` expects less from every other forecast."""
    other = data.draw(st.permutations(belief))
    expected = [math.fsum(q * brier_reward(p, k) for k, q in enumerate(belief)) for p in (belief, other)]
    distance = math.fsum((a - b) ** 2 for a, b in zip(belief, other, strict=True))
    assert expected[0] - expected[1] == pytest.approx(distance, abs=1e-9)


@given(st.floats(0, 1), st.floats(0, 1))
def test_brier_reward_rises_with_the_probability_of_the_truth(p, q):
    low, high = sorted((p, q))
    assert brier_reward([low, 1 - low], 0) <= brier_reward([high, 1 - high], 0)


@pytest.mark.parametrize("shares", [[0.5, 0.6], [1.2, -0.2], [0.5], [math.nan, 0.5]])
def test_brier_reward_refuses_what_is_no_distribution(shares):
    with pytest.raises(ValueError, match="probabilities must be"):
        brier_reward(shares, 0)


@pytest.mark.parametrize(
    ("forecast", "truth", "reward"), [(0.3, -0.1, 0.6), (-0.1, 0.3, 0.6), (0.0, 1.0, 0.0), (0.5, -1.0, -0.5)]
)
def test_distance_reward_falls_by_the_distance(forecast, truth, reward):
    assert distance_reward(forecast, truth) == pytest.approx(reward)


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_distance_reward_is_bounded_and_best_at_the_truth(forecast, truth):
    assert -1.0 <= distance_reward(forecast, truth) <= distance_reward(truth, truth) == 1.0


def test_diagnostics_of_a_group_by_hand():
    # Four rewards: pairs (1,1) tied, the other five not; three distinct values.
    assert group_diagnostics([1.0, 1.0, -1.0, 0.5], -1.0, 1.5) == {
        "reward_tie_group_rate": 1.0,
        "reward_uniform_group_rate": 0.0,
        "reward_tie_pair_rate": 1 / 6,
        "reward_unique_fraction_mean": 3 / 4,
        "reward_uniform_floor_rate": 0.0,
        "reward_uniform_best_rate": 0.0,
        # Mean 3/8, so the squares are 25/64, 25/64, 121/64 and 1/64.
        "reward_group_std": math.sqrt(172 / 64 / 4),
    }


@pytest.mark.parametrize("reward", [-1.0, 0.3, 1.5])
def test_a_group_of_one_is_not_uniform_and_has_no_ties(reward):
    found = group_diagnostics([reward], -1.0, 1.5)
    assert found.pop("reward_unique_fraction_mean") == 1.0
    assert set(found.values()) == {0.0}


def test_forecasts_without_signal_are_seen_by_their_standard_deviation_and_not_by_ties():
    rewards = [0.5, 0.5001, 0.4999, 0.5002]
    found = group_diagnostics(rewards, -1.0, 1.0)
    assert found["reward_tie_pair_rate"] == found["reward_uniform_group_rate"] == 0.0
    assert found["reward_group_std"] == pytest.approx(statistics.pstdev(rewards))
    assert group_diagnostics([0.1] * 3, -1.0, 1.0)["reward_group_std"] == 0.0


@pytest.mark.parametrize(
    ("rewards", "floor", "best"),
    [([-1.0] * 4, 1.0, 0.0), ([1.5] * 4, 0.0, 1.0), ([0.3] * 4, 0.0, 0.0)],
)
def test_uniform_groups_are_split_into_all_floor_and_all_best(rewards, floor, best):
    found = group_diagnostics(rewards, -1.0, 1.5)
    assert found["reward_uniform_group_rate"] == found["reward_tie_pair_rate"] == 1.0
    assert (found["reward_uniform_floor_rate"], found["reward_uniform_best_rate"]) == (floor, best)


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 1.5]), min_size=1, max_size=12))
def test_diagnostics_agree_with_counting_pairs(rewards):
    found = group_diagnostics(rewards, -1.0, 1.5)
    pairs = [a == b for i, a in enumerate(rewards) for b in rewards[i + 1 :]]
    assert found["reward_tie_pair_rate"] == (sum(pairs) / len(pairs) if pairs else 0.0)
    assert found["reward_tie_group_rate"] == float(any(pairs))
    assert found.pop("reward_group_std") == pytest.approx(statistics.pstdev(rewards))
    assert all(0.0 <= value <= 1.0 for value in found.values())


@given(SHARES, SHARES, st.data())
def test_brier_skill_is_strictly_proper_whatever_the_prior(belief, prior, data):
    prior = (prior + [0.5] * len(belief))[: len(belief)]
    prior = [share / math.fsum(prior) for share in prior]
    other = data.draw(st.permutations(belief))

    def expected(stated):
        return math.fsum(p * brier_skill(stated, k, prior) for k, p in enumerate(belief))

    assert expected(belief) >= expected(other) - 1e-9
    if math.dist(belief, other) > 0.01:
        assert expected(belief) > expected(other)


@given(SHARES)
def test_brier_skill_is_nothing_for_the_prior_one_for_the_truth_and_the_floor_for_certainty_of_another(prior):
    stated = math.fsum(p * brier_skill(prior, k, prior) for k, p in enumerate(prior))
    assert stated == pytest.approx(0.0, abs=1e-9)
    certain = [1.0, *[0.0] * (len(prior) - 1)]
    assert brier_skill(certain, 0, prior) == 1.0
    assert brier_skill(certain, 1, prior) == brier_skill_floor(prior) < 0


@pytest.mark.parametrize("prior", [[1.0, 0.0], [0.5, 0.6], [1.5, -0.5]])
def test_a_prior_that_is_certain_or_no_distribution_is_refused(prior):
    with pytest.raises(ValueError, match="a prior must be probabilities"):
        brier_skill([0.5, 0.5], 0, prior)


NUMBERS = st.lists(st.floats(-1, 1), min_size=1, max_size=15)


@given(NUMBERS, st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.floats(-1, 1))
def test_no_forecast_beats_the_median_of_what_is_believed_by_rank(ranks, believed, forecast):
    def expected(stated):
        return math.fsum(rank_distance_reward(stated, truth, sorted(ranks)) for truth in believed) / len(believed)

    assert expected(statistics.median_low(believed)) >= expected(forecast) - 1e-9
    assert -1 <= expected(forecast) <= 1
    assert rank_distance_reward(forecast, forecast, sorted(ranks)) == 1


@given(st.sampled_from(LABELS), st.sampled_from(LABELS))
def test_ordered_correctness_is_symmetric_and_falls_with_the_distance(predicted, truth):
    order = ("consolidating", "neutral", "disruptive")
    reward = ordered_correctness(predicted, truth, order)
    assert (
        reward == ordered_correctness(truth, predicted, order) == 1 - abs(order.index(predicted) - order.index(truth))
    )
