"""Orders of examples: epochs, balance, and that a position always means the same example."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scisci_gym import Paper
from scisci_gym.envs.training.order import Balanced, BalancedOrder, Shuffled


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
    order = BalancedOrder("disruption-v0")(papers, 0)
    shown = Counter(papers[order(position)][0].disruption_label for position in range(30))
    assert shown == {"disruptive": 10, "consolidating": 10, "neutral": 10}


def test_another_seed_is_another_order() -> None:
    assert [Shuffled(30, 0)(at) for at in range(30)] != [Shuffled(30, 1)(at) for at in range(30)]
