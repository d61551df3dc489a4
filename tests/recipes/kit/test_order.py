"""Which papers come when: shares of labels that follow the answers, a curriculum that widens, and how both resume."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym import Paper
from scisci_gym.recipes.kit.order import (
    LIMIT,
    PASS_RATES,
    Adaptive,
    CurriculumOrder,
    Widening,
    adapted_shares,
    apportioned,
    example_key,
    margins,
    stage_of,
)

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


def paper(at: int, cd: float, **more) -> tuple[Paper]:
    return (Paper(openalex_id=f"W{at}", title="T", publication_year=2000, cd_index=cd, **more),)


def test_margin_is_the_distance_to_the_nearest_other_label() -> None:
    """CD 0.5 and 0.2 are disruptive, 0.05 is neutral, -0.3 consolidating."""
    found = margins("disruption-v0", [paper(1, 0.5), paper(2, 0.2), paper(3, 0.05), paper(4, -0.3)])
    np.testing.assert_allclose(found, [0.45, 0.15, 0.15, 0.35])


def test_labels_by_rank_are_compared_within_field_and_year() -> None:
    def ranked(at: int, cd: float, label: str, field: str) -> tuple[Paper]:
        return paper(at, cd, disruption_label=label, label_scheme="quantile", primary_field=field)

    examples = [
        ranked(1, 0.9, "disruptive", "physics"),
        ranked(2, 0.1, "neutral", "physics"),
        ranked(3, 0.3, "consolidating", "biology"),
        ranked(4, 0.35, "neutral", "biology"),
    ]
    np.testing.assert_allclose(margins("disruption-v0", examples), [0.8, 0.8, 0.05, 0.05])


def test_a_label_without_rivals_has_no_boundary() -> None:
    assert np.isinf(margins("disruption-v0", [paper(1, 0.5), paper(2, 0.4)])).all()


def test_a_pair_is_as_easy_as_its_scores_are_apart() -> None:
    pairs = [(paper(1, 0.5)[0], paper(2, -0.5)[0]), (paper(3, 0.2)[0], paper(4, 0.1)[0])]
    np.testing.assert_allclose(margins("disruption-pairwise-v0", pairs), [1.0, 0.1])


def test_a_paper_without_score_is_named() -> None:
    bare = Paper(openalex_id="W9", title="T", publication_year=2000, disruption_label="neutral")
    with pytest.raises(ValueError, match=r"cd_index.*W9"):
        margins("disruption-v0", [(bare,)])


def test_a_stage_ends_when_rewards_have_risen_a_tenth_of_their_range_or_after_its_patience() -> None:
    assert stage_of([0.0] * 24, reach=2.0) == 0
    assert stage_of([0.0] * 25, reach=2.0) == 1
    assert stage_of([0.0, 0.0, 0.0, 0.2, 0.2, 0.2], reach=2.0) == 1
    assert stage_of([0.0, 0.0, 0.0, 0.1, 0.1, 0.1], reach=2.0) == 0
    assert stage_of([0.0] * 1000, reach=2.0) == 3, "the last stage is all papers"


def test_the_pool_widens_from_a_third_to_all() -> None:
    rewards: list[float] = []
    order = Widening(range(30), 10, lambda before: rewards[:before], reach=2.0, seed=0)
    assert {order(position) for position in range(10)} == set(range(10)), "the easiest third, each once"
    rewards += [0.0] * 100
    late = Widening(range(30), 10, lambda before: rewards[:before], reach=2.0, seed=0)
    assert {late(position) for position in range(900, 930)} == set(range(30))


def test_a_batch_depends_on_what_was_logged_two_steps_before_it_and_on_nothing_later(tmp_path: Path) -> None:
    """So the batch after a resumption is the batch that there would have been."""
    rates = {example_key(paper(at, 0.5)): at / 10 for at in range(10)}
    (tmp_path / PASS_RATES).write_text(json.dumps(rates))
    examples = [paper(at, 0.5) for at in range(10)]
    maker = CurriculumOrder("pass_rate", "disruption-v0", 2, str(tmp_path))

    def log(rewards: list[float]) -> None:
        rows = [{"step": step, "env/all/reward/total": reward} for step, reward in enumerate(rewards)]
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def batch(number: int) -> list[int]:
        order = maker(examples, 0)
        return [order(2 * number), order(2 * number + 1)]

    log([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    widened = batch(7)
    log([0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    assert batch(7) == widened
    assert set(batch(0)) <= {9, 8, 7, 6}, "the easiest third by pass rate"
