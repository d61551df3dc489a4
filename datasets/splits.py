"""Splits by time: no training label counts citations from the years of the test papers, no paper is in two splits.

Which of two papers appeared first, as far as the source's dates tell, stands here too.
"""

from dataclasses import dataclass
from datetime import date

import numpy as np

from .errors import BadInput

SPLITS = ("train", "validation", "test")
CUTOFF_VIEWS = ("test_pre_cutoff", "test_post_cutoff")
"""The test papers published before a model's knowledge cutoff, and those published since."""
TEST_SHARE, VALIDATION_SHARE = 0.25, 0.2


@dataclass(frozen=True)
class SplitYears:
    """Publication years of the three splits, all inclusive.

    Training ends at `train_to`, validation runs from the year after to `validation_to`, the test set from `test_from`
    to `test_to`. Papers in between are left out: their labels were still being made when the first test papers
    appeared.
    """

    train_to: int
    validation_to: int
    test_from: int
    test_to: int

    def __post_init__(self) -> None:
        if not self.train_to <= self.validation_to < self.test_from <= self.test_to:
            raise ValueError(
                f"split years must satisfy train_to <= validation_to < test_from <= test_to, got {self.train_to}, "
                f"{self.validation_to}, {self.test_from}, {self.test_to}"
            )

    def of(self, year: int) -> str | None:
        """Name of the split that a year belongs to, or None."""
        if year <= self.train_to:
            return "train"
        if year <= self.validation_to:
            return "validation"
        return "test" if self.test_from <= year <= self.test_to else None

    def members(self, years: np.ndarray) -> dict[str, np.ndarray]:
        """Positions, ascending, of the papers of each split among those of `years`; `BadInput` if a split is empty."""
        distinct, year = np.unique(years, return_inverse=True)
        split = np.array([self.of(value) or "" for value in distinct.tolist()])[year]
        chosen = {name: np.flatnonzero(split == name) for name in SPLITS}
        for name, members in chosen.items():
            if not members.size:
                raise BadInput(f"the {name} split is empty with {self}; choose other split years")
        return chosen


class NoRoomForSplit(BadInput):
    """The years of the labelled papers do not allow the kind of split that was asked for."""


def split_years_for(years: np.ndarray, kind: str, window: int, fixed: SplitYears | None, closed_by: int) -> SplitYears:
    """The split years that were asked for (`fixed`), checked, or those that `kind` gives.

    `years`, int (M,), are those of the labelled papers, whose labels look `window` years ahead; the data are complete
    up to the year `closed_by`. `kind` is ``closed`` or ``publication``, see `closed_split_years` and
    `publication_split_years`. Raises `BadInput` for fixed years that are not closed, and `NoRoomForSplit` where no
    years can be chosen.
    """
    if kind not in ("closed", "publication"):
        raise ValueError(f"split must be closed or publication, got {kind!r}")
    if fixed is not None:
        closes = fixed.validation_to + window
        if kind == "closed" and closes >= fixed.test_from:
            raise BadInput(
                f"label windows of {window} years from {fixed.validation_to} close in {closes}, but test papers appear "
                f"from {fixed.test_from}; start the test later, shorten --window, or accept it with --split publication"
            )
        return fixed
    chosen = closed_split_years(years, window) if kind == "closed" else publication_split_years(years)
    if chosen is None:
        raise NoRoomForSplit(
            f"labelled papers of {years.min()}-{years.max()} (windows of {window} years, data complete to {closed_by}) "
            f"leave no room for a {kind} split; shorten --window, or use --split publication, which lets training "
            "labels see the years of the test papers and says so in the card"
        )
    return chosen


def closed_split_years(years: np.ndarray, window: int) -> SplitYears | None:
    """Split years such that every training and validation window has closed when the first test paper appears.

    All labels of a paper look ahead by the same `window` (see `LabelRules`), so this closes them all. With test papers
    from year T on, training and validation papers are of year T - window - 1 and before. T is the year that brings the
    test set closest to `TEST_SHARE` of all papers in the three splits; the last fifth of the papers before the gap, in
    whole years, is the validation set.

    None where the years, int (M,), leave no room for a gap of `window` years.

    Examples
    --------
    >>> closed_split_years(np.repeat(np.arange(1990, 2010), 10), window=5)
    SplitYears(train_to=1998, validation_to=2000, test_from=2006, test_to=2009)
    """
    choices = []
    for test_from in np.unique(years).tolist():
        before, test = years[years < test_from - window], int((years >= test_from).sum())
        if np.unique(before).size >= 2:
            choices.append((abs(test / (test + before.size) - TEST_SHARE), test_from))
    if not choices:
        return None
    _, test_from = min(choices)
    train_to, validation_to = _hold_out_last(years[years < test_from - window], VALIDATION_SHARE)
    return SplitYears(train_to, validation_to, test_from, int(years.max()))


def publication_split_years(years: np.ndarray) -> SplitYears | None:
    """Split years by publication date only, with no gap: training labels use citations made after test papers appeared.

    Such a split keeps more papers and is what much published work does. None where there are fewer than three years.
    """
    distinct = np.unique(years)
    if len(distinct) < 3:
        return None
    early, late = _hold_out_last(years, TEST_SHARE)
    # Training and validation need a year each.
    early = max(early, int(distinct[1]))
    train_to, validation_to = _hold_out_last(years[years <= early], VALIDATION_SHARE)
    return SplitYears(train_to, validation_to, early + 1, late)


def _hold_out_last(years: np.ndarray, share: float) -> tuple[int, int]:
    """(last year kept, last year of all) so that the years after the first hold about `share` of the papers."""
    distinct = np.unique(years)
    held = np.array([(years > year).mean() for year in distinct[:-1]])
    return int(distinct[np.abs(held - share).argmin()]), int(distinct.max())


def known_day(publication_date: str, publication_year: int) -> str:
    """The date, or "" where only the year is known.

    OpenAlex writes 1 January where it only knows the year, so that day counts as unknown; so does a date that is not
    ``YYYY-MM-DD`` or lies in another year than the paper.

    Examples
    --------
    >>> known_day("1999-05-31", 1999), known_day("1999-01-01", 1999), known_day("1999-05-31", 1998)
    ('1999-05-31', '', '')
    """
    day = len(publication_date) == 10 and publication_date.startswith(f"{publication_year}-")
    return publication_date if day and not publication_date.endswith("-01-01") else ""


def certainly_before(date: str, year: int, other_date: str, other_year: int) -> bool:
    """Whether a paper certainly appeared before another one.

    Papers of different years are compared by their years, papers of the same year by their dates (see `known_day`). The
    same day, or a day that is not known, is not certainly before.

    Examples
    --------
    >>> certainly_before("", 1998, "1999-05-31", 1999), certainly_before("1999-05-30", 1999, "1999-05-31", 1999)
    (True, True)
    >>> certainly_before("1999-05-31", 1999, "1999-05-31", 1999), certainly_before("", 1999, "1999-05-31", 1999)
    (False, False)
    """
    if year != other_year:
        return year < other_year
    day, other_day = known_day(date, year), known_day(other_date, other_year)
    return bool(day and other_day) and day < other_day


def is_post_cutoff(publication_date: str, publication_year: int, cutoff: date) -> bool:
    """Whether a paper certainly appeared on or after a knowledge cutoff.

    A paper with no date, or with 1 January (which OpenAlex writes where it only knows the year), is of unknown date
    within its year; in the year of the cutoff it counts as published before.

    Examples
    --------
    >>> is_post_cutoff("2024-06-30", 2024, date(2024, 6, 1)), is_post_cutoff("2024-01-01", 2024, date(2024, 1, 1))
    (True, False)
    """
    day = known_day(publication_date, publication_year)
    return publication_year > cutoff.year if publication_year != cutoff.year or not day else day >= cutoff.isoformat()


def balanced(labels: np.ndarray, seed: int) -> np.ndarray:
    """Positions of a random subset in which every label is as common as the rarest, in ascending order.

    Examples
    --------
    >>> np.sort(np.array(["a", "b", "b", "b", "a"])[balanced(np.array(["a", "b", "b", "b", "a"]), 0)]).tolist()
    ['a', 'a', 'b', 'b']
    """
    names, counts = np.unique(labels, return_counts=True)
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(labels == label), size=counts.min(), replace=False) for label in names]
    return np.sort(np.concatenate(chosen))
