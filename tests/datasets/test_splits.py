"""Splits by time without leaks, copies, knowledge cutoffs, balance."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets import near_duplicates
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.near_duplicates import copies_among, later_copies, near_identical, title_words
from scisci_gym.datasets.splits import (
    NoRoomForSplit,
    SplitYears,
    balanced,
    closed_split_years,
    is_post_cutoff,
    publication_split_years,
    split_years_for,
)

years = st.lists(st.integers(1980, 2010), min_size=1, max_size=60).map(np.array)


@given(years, st.integers(1, 6))
def test_training_windows_close_before_the_first_test_paper(found, window):
    split = closed_split_years(found, window)
    if split is None:
        return
    by_split = {name: [y for y in found.tolist() if split.of(y) == name] for name in ("train", "validation", "test")}
    assert all(by_split.values())
    assert max(by_split["train"] + by_split["validation"]) + window < min(by_split["test"])


@given(years)
def test_publication_splits_are_in_order_and_not_empty(found):
    split = publication_split_years(found)
    assert (split is None) == (len(set(found.tolist())) < 3)
    if split is not None:
        assert {split.of(year) for year in found.tolist()} == {"train", "validation", "test"}


def test_split_years_that_are_out_of_order_are_refused():
    with pytest.raises(ValueError, match="train_to <= validation_to < test_from <= test_to"):
        SplitYears(2000, 2002, 2002, 2003)


TWENTY_YEARS = np.repeat(np.arange(1990, 2010), 10)


def test_fixed_years_are_taken_as_they_are_unless_a_closed_split_would_be_open():
    fixed = SplitYears(1999, 2000, 2005, 2009)
    assert split_years_for(TWENTY_YEARS, "publication", 5, fixed, 2012) == fixed
    assert split_years_for(TWENTY_YEARS, "closed", 4, fixed, 2012) == fixed
    with pytest.raises(BadInput, match="5 years from 2000 close in 2005, but test papers appear from 2005"):
        split_years_for(TWENTY_YEARS, "closed", 5, fixed, 2012)


def test_years_without_room_for_a_split_are_named_with_the_way_out():
    with pytest.raises(
        NoRoomForSplit, match=r"papers of 1990-2009 .* leave no room for a closed split; shorten --window"
    ):
        split_years_for(TWENTY_YEARS, "closed", 30, None, 2012)
    with pytest.raises(ValueError, match="split must be closed or publication, got 'random'"):
        split_years_for(TWENTY_YEARS, "random", 5, None, 2012)


def test_a_split_without_papers_is_named():
    members = SplitYears(1999, 2000, 2006, 2009).members(TWENTY_YEARS)
    assert {name: set(TWENTY_YEARS[papers]) for name, papers in members.items()} == {
        "train": {*range(1990, 2000)}, "validation": {2000}, "test": {*range(2006, 2010)}
    }  # fmt: skip
    with pytest.raises(BadInput, match="the test split is empty with SplitYears"):
        SplitYears(1999, 2000, 2015, 2016).members(TWENTY_YEARS)


SAME = [
    ("Black Holes and Entropy", "BLACK HOLES and entropy."),
    ("Théorie des D-branes", "Theorie des D branes"),
    ("Duality in $\\mathcal{N}=2$ gauge theories", "Duality in N=2 gauge theories"),
    ("The entropy of black holes in four dimensions", "Entropy of black holes in four dimensions"),
    ("Entropy of black hole in four dimensions", "Entropy of black holes in four dimensions"),
    ("Renormalisation of gauge theories with boundary terms", "Renormalization of gauge theories with boundary terms"),
]
DIFFERENT = [
    ("Black holes", "Black hole"),
    ("Entropy of black holes in four dimensions", "Entropy of black holes in five dimensions"),
    ("Stable solutions of the field equations in space", "Unstable solutions of the field equations in space"),
    ("Lectures on string theory and duality, part I", "Lectures on string theory and duality, part II"),
    ("Strings on a group manifold at level 12", "Strings on a group manifold at level 13"),
    ("Entropy of charged black holes in four dimensions", "Entropy of black holes in four dimensions"),
    ("Quantum gravity in the early universe: a review", "Quantum gravity in the late universe: a review"),
]


@pytest.mark.parametrize(
    ("first", "second", "same"), [(*pair, True) for pair in SAME] + [(*p, False) for p in DIFFERENT]
)
def test_near_identical_titles(first, second, same):
    assert near_identical(title_words(first), title_words(second)) is same
    assert near_identical(title_words(second), title_words(first)) is same
    assert later_copies(["", ""], [first, second]).tolist() == [False, same]


def test_copies_of_copies_are_one_group_and_the_first_stays():
    titles = ["Entropy of black hole in four dimensions", "x", "Entropy of black holes in four dimensions", "y", "x2"]
    assert later_copies(["10.1/a", "10.1/b", "", "10.1/a", "10.1/b"], titles).tolist() == [0, 0, 1, 1, 1]


letters = st.sampled_from(["alpha", "beta", "gamma", "gammas", "the", "of", "delta", "deltas", "ii"])
titles = st.lists(st.lists(letters, min_size=1, max_size=8).map(" ".join), max_size=12)


@given(titles)
def test_copies_are_found_as_by_comparing_all_pairs(found):
    words = [title_words(title) for title in found]
    group = list(range(len(found)))
    for _ in found:
        for a in range(len(found)):
            for b in range(a):
                if near_identical(words[a], words[b]):
                    group[a] = group[b] = min(group[a], group[b])
    assert later_copies([""] * len(found), found).tolist() == [group[at] != at for at in range(len(found))]


def test_copies_are_the_same_however_many_files_hold_the_keys(monkeypatch, tmp_path):
    words = ["alpha", "beta", "gamma", "gammas", "the", "of", "delta", "deltas"]
    rng = np.random.default_rng(0)
    found = [" ".join(rng.choice(words, rng.integers(1, 8))) for _ in range(300)]
    dois = [f"10.1/{number}" if number < 200 else "" for number in rng.integers(0, 400, 300).tolist()]
    whole = later_copies(dois, found)
    assert 50 < whole.sum() < 300
    monkeypatch.setattr(near_duplicates, "AT_A_TIME", 17)
    monkeypatch.setattr(near_duplicates, "KEYS_A_FILE", 100)
    assert later_copies(dois, found).tolist() == whole.tolist()

    def described(papers):
        assert papers.size <= 64, "a few at a time"
        return [dois[paper] for paper in papers], [found[paper] for paper in papers]

    assert copies_among(300, described, tmp_path).tolist() == whole.tolist()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("published", "year", "after"),
    [
        ("2024-05-31", 2024, False),
        ("2024-06-01", 2024, True),
        ("2024-01-01", 2024, False),
        ("", 2024, False),
        ("2023-12-31", 2023, False),
        ("", 2025, True),
    ],
)
def test_only_papers_that_are_surely_later_are_after_the_cutoff(published, year, after):
    assert is_post_cutoff(published, year, date(2024, 6, 1)) is after


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60), st.integers(0, 5))
def test_balanced_labels_are_equally_common(labels, seed):
    array = np.array(labels)
    kept = balanced(array, seed)
    _, counts = np.unique(array[kept], return_counts=True)
    assert set(counts) == {np.unique(array, return_counts=True)[1].min()}
    assert (np.diff(kept) > 0).all()
    assert balanced(array, seed).tolist() == kept.tolist()


def test_a_year_whose_window_closes_when_the_first_test_paper_appears_is_not_early() -> None:
    """Test papers from 2000: five years after 1995 is 2000, so 1990 alone is early, and two years are needed."""
    assert closed_split_years(np.repeat([1990, 1995, 2000], 10), window=5) is None
    assert closed_split_years(np.repeat([1990, 1994, 2000], 10), window=5) is not None
