"""Shares of labels that follow the policy's answers, and how an order resumes."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.recipes.kit.order import LIMIT, Adaptive, adapted_shares, apportioned

WANTED = {"high": 1 / 3, "middle": 1 / 3, "low": 1 / 3}
SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(
    lambda parts: dict(zip(WANTED, (p / (sum(parts) or 1) for p in parts), strict=True))
)


@given(SHARES)
def test_shares_sum_to_one_and_stay_within_bounds(named: dict[str, float]) -> None:
    found = adapted_shares(named, WANTED)
    assert sum(found.values()) == pytest.approx(1)
    assert max(found.values()) / min(found.values()) <= LIMIT**2 + 1e-9


def test_the_more_seldom_a_label_is_named_the_more_often_it_comes_up() -> None:
    def shown(middle: float) -> float:
        rest = (1 - middle) / 2
        return adapted_shares({"high": rest, "middle": middle, "low": rest}, WANTED)["middle"]

    shares = [shown(middle) for middle in (1 / 3, 0.3, 0.25, 0.2)]
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / 3)
    assert shares[-1] > 0.45


def test_answers_in_the_wanted_shares_change_nothing() -> None:
    assert adapted_shares(WANTED, WANTED) == pytest.approx(WANTED)


@given(st.dictionaries(st.text(max_size=3), st.floats(0.01, 1), min_size=1, max_size=5), st.integers(0, 40))
def test_seats_are_given_out_to_the_last_and_near_the_shares(parts: dict[str, float], seats: int) -> None:
    shares = {label: part / sum(parts.values()) for label, part in parts.items()}
    found = apportioned(shares, seats)
    assert sum(found.values()) == seats
    assert all(abs(found[label] - shares[label] * seats) < 1 for label in shares)


def test_a_policy_that_forgets_the_middle_is_brought_back_to_it() -> None:
    """A toy policy drifts by a fiftieth of a log-odd a step away from the middle label, and moves towards the labels
    that it is shown: with equal batches the middle one would vanish."""
    labels = [*["high"] * 40, *["middle"] * 40, *["low"] * 40]
    named: list[dict[str, float]] = []
    order = Adaptive(labels, 30, lambda before: named[before // 5 * 5] if named[before // 5 * 5 :] else None, seed=0)
    odds = dict.fromkeys(WANTED, 0.0)
    for batch in range(200):
        total = sum(math.exp(value) for value in odds.values())
        named.append({label: math.exp(value) / total for label, value in odds.items()})
        shown = Counter(labels[order(30 * batch + at)] for at in range(30))
        odds = {label: value + 0.2 * (shown[label] / 30 - 1 / 3) for label, value in odds.items()}
        odds["middle"] -= 0.02
    late = [step["middle"] for step in named[-50:]]
    assert min(late) > 0.25, "equal batches: 0.02"
    assert max(late) < 0.4


def test_no_paper_comes_twice_before_all_of_its_label_came_once() -> None:
    labels = ["a", "b", "a", "b", "a", "b"]
    order = Adaptive(labels, 2, lambda before: None, seed=3)
    assert sorted(order(position) for position in range(6)) == [0, 1, 2, 3, 4, 5]


def test_an_order_made_anew_continues_as_the_old_one_would() -> None:
    labels = ["a", "b", "c"] * 10
    named = {"a": 0.8, "b": 0.1, "c": 0.1}

    def order() -> Adaptive:
        return Adaptive(labels, 6, lambda before: named if before > 3 else None, seed=1)

    first, second = order(), order()
    assert [first(at) for at in range(60)][36:] == [second(at) for at in range(36, 60)]
