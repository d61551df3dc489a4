"""Orders of examples: epochs, balance, and that a position always means the same example."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym import Paper
from scisci_gym.envs.training.order import Balanced, LabelOrder, Proportional, Shuffled, drawn_rows


@given(st.integers(1, 40), st.integers(0, 5))
def test_an_epoch_shows_every_example_once(size: int, seed: int) -> None:
    order = Shuffled(size, seed)
    for epoch in range(3):
        assert sorted(order(epoch * size + at) for at in range(size)) == list(range(size))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.integers(0, 5), st.integers(0, 30))
def test_a_stretch_as_long_as_there_are_labels_holds_each_once(labels: list[str], seed: int, start: int) -> None:
    order, kinds = Balanced(labels, seed), len(set(labels))
    shown = Counter(labels[order(position)] for position in range(start, start + kinds))
    assert set(shown.values()) == {1}


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.integers(0, 5), st.data())
def test_any_stretch_holds_a_label_as_often_as_all_examples_do(labels: list[str], seed: int, data: st.DataObject):
    order, size = Proportional(labels, seed), len(labels)
    for epoch in range(2):
        assert sorted(order(epoch * size + at) for at in range(size)) == list(range(size))
        start = data.draw(st.integers(0, size))
        length = data.draw(st.integers(0, size - start))
        stretch = range(epoch * size + start, epoch * size + start + length)
        shown = Counter(labels[order(position)] for position in stretch)
        for label, count in Counter(labels).items():
            assert abs(shown[label] - length * count / size) <= len(set(labels))


def test_a_rare_label_is_in_every_batch() -> None:
    """A quarter of the papers: four of each sixteen, or one more or less where the batch begins. By chance 0 to 9."""
    labels = ["hit"] * 100 + ["ordinary"] * 300
    order = Proportional(labels, 0)
    shown = [sum(labels[order(at)] == "hit" for at in range(16 * batch, 16 * batch + 16)) for batch in range(100)]
    assert set(shown) <= {3, 4, 5}
    assert [order(at) for at in range(400)] != [order(400 + at) for at in range(400)]


@given(st.lists(st.sampled_from("ab"), min_size=2, max_size=30))
def test_within_a_label_nothing_comes_twice_before_all_came_once(labels: list[str]) -> None:
    order, kinds = Balanced(labels, 0), len(set(labels))
    for label in set(labels):
        members = [at for at, other in enumerate(labels) if other == label]
        turns = [order(position) for position in range(len(members) * kinds)]
        assert sorted(at for at in turns if labels[at] == label) == members


def test_the_maker_balances_gold_labels() -> None:
    papers = [
        (Paper(openalex_id=f"W{at}", title="T", publication_year=2000, cd_index=cd),)
        for at, cd in enumerate([0.5, -0.5, 0.0, 0.0, 0.0, 0.0])
    ]
    order = LabelOrder("disruption-v0", Balanced)(papers, 0)
    shown = Counter(papers[order(position)][0].disruption_label for position in range(30))
    assert shown == {"disruptive": 10, "consolidating": 10, "neutral": 10}


def test_another_seed_is_another_order() -> None:
    assert [Shuffled(30, 0)(at) for at in range(30)] != [Shuffled(30, 1)(at) for at in range(30)]


def test_fewer_rows_are_a_part_of_more_and_another_seed_draws_others() -> None:
    examples = [(Paper(openalex_id=f"W{at}", title="T", publication_year=2000),) for at in range(40)]
    few, more = (drawn_rows(examples, rows, seed=1) for rows in (8, 20))
    assert more[:8] == few
    assert drawn_rows(examples, 8, seed=2) != few
    assert drawn_rows(examples, None, seed=1) == examples
    with pytest.raises(ValueError, match="rows must be at least 1"):
        drawn_rows(examples, 0, seed=1)
