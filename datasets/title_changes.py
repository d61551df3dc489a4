"""Titles that do not belong to their ids: two builds are compared by a sample of the works that both have.

A snapshot can give works the titles of other works, as that of March 2026 did in the parts of its last days. So the
sample is drawn from every part. A part fails, or all of them together, where more than `MOST_CHANGED` of the titles,
and at least `LEAST`, have changed altogether: they share less than `ALIKE` of the runs of three letters of the shorter
one. Corrections, subtitles, marks such as "RETRACTED:" and other spellings of a title share more.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from .near_duplicates import title_words
from .openalex.works_table import WorksTable
from .positions import positions_of

ALIKE = 0.4
"""Of 20,000 pairs of different titles of hep-th, 1.6 % share as much or more."""
MOST_CHANGED, LEAST = 0.05, 5
SAMPLE = 200


def changed_altogether(before: str, after: str) -> bool:
    """Whether two titles of a work have next to nothing in common. An empty title has been neither given nor lost.

    Examples
    --------
    >>> changed_altogether("On the origin of species", "On the Origin of Species by Means of Natural Selection")
    False
    >>> changed_altogether("On the origin of species", "A mathematical theory of communication")
    True
    """
    old, new = _runs(before), _runs(after)
    return bool(old and new) and len(old & new) < ALIKE * min(len(old), len(new))


def _runs(title: str) -> set[str]:
    words = " ".join(title_words(title))
    # Of a title of one or two letters, or ideographs, the run is what there is, with the spaces around it.
    padded = f" {words} " if words else ""
    return {padded[start : start + 3] for start in range(max(0, len(padded) - 2))}


def scrambled_titles(
    before: WorksTable, after: WorksTable, names: Sequence[str], *, seed: int = 0
) -> tuple[int, list[str]]:
    """Look for parts of a build whose titles do not belong to their ids, by the titles that another build has.

    `names` are what the parts of `after`, its pieces in order, are called in messages; `SAMPLE` works of each part, at
    most, are drawn with the `seed`. Returns how many were drawn, and a sentence about each part that fails, with an
    example.
    """
    random = np.random.default_rng(seed)
    places = positions_of(after.work_id, before.work_id, np.argsort(before.work_id, kind="stable"))
    drawn, first = [], 0
    for length in after.lengths():
        known = np.flatnonzero(places[first : first + length] >= 0)
        drawn.append(first + np.sort(random.permutation(known)[:SAMPLE]))
        first += length
    # All at once, so that no part of `before` is read for every part of `after`.
    chosen = np.concatenate(drawn)
    old = before.rows(places[chosen], ["title"])["title"].to_pylist()
    new = after.rows(chosen, ["title"])["title"].to_pylist()
    works = list(zip(after.ids(chosen), old, new, strict=True))
    rest, wrong = iter(works), []
    for name, part in zip(names, drawn, strict=True):
        wrong += _scrambled(name, list(islice(rest, part.size)))
    return len(works), wrong or _scrambled("all parts together", works)


def _scrambled(name: str, works: list[tuple[str, str, str]]) -> list[str]:
    """A sentence about works, as (id, title before, title after), if too many of them have another title."""
    titled = [work for work in works if work[1] and work[2]]
    changed = [work for work in titled if changed_altogether(*work[1:])]
    if len(changed) < LEAST or len(changed) <= MOST_CHANGED * len(titled):
        return []
    work, was, became = changed[0]
    return [
        f"{name}: {len(changed):,} of {len(titled):,} works have another title altogether, such as {work}: {was!r} has "
        f"become {became!r}"
    ]
