"""How much of a citing year fits into memory at a time when its atypicality is computed."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import BadInput
from .venue_pairs import VenuePairs, YearSlots

# Bytes that a year takes, checked by a test that traces what numpy allocates.
SLOT = 72
PAIR = 12
"""Its venue and how often it occurs."""
COUNTED_PAIR = 272
"""Its counts in the groups of null networks, and what their moments are made with."""
PAPER = 280
"""Its slots and its results."""
SCORE_OF_PAIR, SCORE_OF_PAPER = 8, 32
"""One of the fifteen scores of a pair, and its percentiles over the pairs of a paper."""
SCORES = 15
FIXED = 1 << 16


class YearPlan(NamedTuple):
    """How many pairs are counted in the null networks at a time, and how many of the 15 scores are in memory."""

    pairs: int
    rows: int
    on_disk: bool
    """Whether the scores wait in a file until all pairs have been counted."""

    @classmethod
    def of(cls, slots: YearSlots, pairs: VenuePairs, year: int, memory: int | None) -> YearPlan:
        """The plan for `memory` bytes; None: everything at once. Raises `BadInput` if that is too little."""
        n_pairs, least = pairs.columns.size, least_bytes(slots, pairs)
        score = _score_bytes(slots, pairs)
        fixed = least - max(score, COUNTED_PAIR)
        if memory is None or memory >= fixed + COUNTED_PAIR * n_pairs + SCORES * score:
            return cls(max(1, n_pairs), SCORES, False)
        if memory < least:
            raise BadInput(
                f"a memory of {memory:,} bytes for each thread is too little for the {slots.venue.size:,} references "
                f"and {n_pairs:,} venue pairs of {year}: give {least:,} bytes or more for each, or set "
                "SCISCI_GYM_THREADS=1"
            )
        return cls((memory - fixed) // COUNTED_PAIR, min(SCORES, (memory - fixed) // score), n_pairs > 0)


def least_bytes(slots: YearSlots, pairs: VenuePairs) -> int:
    """Bytes that a year needs: with one pair counted in the null networks at a time, or one score of all pairs."""
    cells = 16 * slots.venues.size * (slots.cells.size + 2)
    fixed = FIXED + SLOT * slots.venue.size + PAIR * pairs.columns.size + PAPER * slots.papers.size + cells
    return fixed + max(_score_bytes(slots, pairs), COUNTED_PAIR)


def _score_bytes(slots: YearSlots, pairs: VenuePairs) -> int:
    return SCORE_OF_PAIR * pairs.columns.size + SCORE_OF_PAPER * slots.papers.size
