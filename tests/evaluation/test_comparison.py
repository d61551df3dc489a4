"""Paired comparison: by hand, against scikit-learn and the definition, and its intervals in simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from scisci_gym.evaluation.comparison import compare

LABELS = ["a", "b", "c"]
ANSWER = st.sampled_from([*LABELS, ""])


@given(st.lists(st.tuples(st.sampled_from(LABELS), ANSWER, ANSWER), min_size=1, max_size=50))
def test_differences_equal_those_of_scikit_learn(rows: list[tuple[str, str, str]]) -> None:
    truth, first, second = (list(column) for column in zip(*rows, strict=True))
    found = compare(truth, first, second, LABELS)

    def f1(answers: list[str]) -> float:
        return float(f1_score(truth, answers, labels=LABELS, average="macro", zero_division=0))

    assert found.macro_f1_difference.value == pytest.approx(f1(first) - f1(second))
    gap = accuracy_score(truth, first) - accuracy_score(truth, second)
    assert found.accuracy_difference.value == pytest.approx(gap)
    assert (found.n_only_first_right - found.n_only_second_right) / found.n == pytest.approx(gap)
    parts = (found.n_both_right, found.n_only_first_right, found.n_only_second_right, found.n_neither_right)
    assert sum(parts) == found.n == len(rows)


@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_is_the_two_sided_binomial_test(first: int, second: int) -> None:
    """Twice the smaller tail of a fair coin over the examples that only one gets right, by its definition."""
    found = compare(
        ["a"] * (first + second + 1),
        ["a"] * first + ["b"] * (second + 1),
        ["b"] * first + ["a"] * (second + 1),
        ["a", "b"],
    )
    only_first, only_second = first, second + 1
    n = only_first + only_second
    tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1)) / 2**n
    assert (found.n_only_first_right, found.n_only_second_right) == (only_first, only_second)
    assert found.mcnemar_p == pytest.approx(min(1.0, 2 * tail))


def test_equal_answers_differ_by_nothing() -> None:
    found = compare(LABELS * 5, LABELS * 5, LABELS * 5, LABELS)
    assert found.mcnemar_p == 1.0
    difference = found.macro_f1_difference
    assert (difference.value, difference.low, difference.high) == (0, 0, 0)


@pytest.mark.slow
def test_the_interval_covers_at_the_stated_rate() -> None:
    """Two correlated sets of answers, right with 0.7 and 0.6: the interval holds 0.1 about 95 times of 100."""
    rng = np.random.default_rng(5)
    trials, covered = 400, 0
    for trial in range(trials):
        truth = rng.integers(3, size=300)
        easy = rng.random(300)
        first = np.where(easy < 0.7, truth, (truth + 1) % 3)
        second = np.where(0.5 * easy + 0.5 * rng.random(300) < _MIXED, truth, (truth + 2) % 3)
        found = compare(*([LABELS[at] for at in row] for row in (truth, first, second)), LABELS, seed=trial)
        covered += found.accuracy_difference.low <= 0.1 <= found.accuracy_difference.high
    assert 0.92 <= covered / trials <= 0.98


# Where the mean of two independent uniform numbers lies below with probability 0.6: 1 - 2 (1 - x)^2 = 0.6.
_MIXED = 1 - math.sqrt(0.2)


def test_blocks_are_resampled_together() -> None:
    """Every example twice: in blocks of two the interval is that of the examples once, and wider than without."""
    rng = np.random.default_rng(2)
    once = [rng.choice(LABELS, 100).tolist() for _ in range(3)]
    twice = [[label for label in row for _ in range(2)] for row in once]

    def width(rows: list[list[str]], block: int) -> float:
        score = compare(*rows, LABELS, block=block).accuracy_difference
        return score.high - score.low

    assert width(twice, 2) == pytest.approx(width(once, 1), rel=0.1)
    assert width(twice, 1) < 0.85 * width(twice, 2)


def test_refuses_what_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="got 2 and 1"):
        compare(["a", "b"], ["a", "b"], ["a"], LABELS)
