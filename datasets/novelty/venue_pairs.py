"""Pairs of venues that the papers of one year cite together: the raw material of every measure of novelty here.

A *slot* is one reference whose venue is known. Slots lie paper by paper and, within a paper, by cited year; all slots
of one cited year form a *cell*, inside which a null model may exchange them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..graph.citation_graph import CitationGraph
from ..jit import kernel


@dataclass(frozen=True)
class YearSlots:
    """The references with a known venue of all papers of one citing year."""

    papers: np.ndarray
    """Positions of the papers of that year, int32 (P,), ascending."""
    indptr: np.ndarray
    """Slots of paper ``papers[k]`` are ``indptr[k]:indptr[k + 1]``; int64 (P + 1,)."""
    cited: np.ndarray
    """Cited paper of each slot, int32 (M,)."""
    venue: np.ndarray
    """Its venue, int32 (M,): a position in `venues`."""
    cell: np.ndarray
    """Its cell, int32 (M,): a position in `cells`."""
    venues: np.ndarray
    """The venues as `checked_venues` numbers them, int64 (V,), ascending."""
    cells: np.ndarray
    """The cited years, ascending."""


@dataclass(frozen=True)
class VenuePairs:
    """How often the papers of a year cite venues ``i <= j`` together: the upper triangle as sparse rows.

    `indptr` is int64 (V + 1,), `columns` int32 (Q,), ascending within a row, and `counts` int64 (Q,).
    """

    indptr: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        """Venue i of each pair, int64 (Q,); `columns` has venue j."""
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def part(self, low: int, high: int) -> "VenuePairs":
        """The pairs from the `low`-th up to the `high`-th, that one excluded; rows outside are empty."""
        return VenuePairs(np.clip(self.indptr, low, high) - low, self.columns[low:high], self.counts[low:high])


def checked_venues(graph: CitationGraph, venues: npt.ArrayLike) -> np.ndarray:
    """Venues of the papers of a graph, numbered from 0 in the order of the caller's numbers.

    Every measure of novelty calls this first: its arrays are sized by the number of venues, and an OpenAlex source id
    such as 4306400194 would be too large for them.

    Parameters
    ----------
    venues : int array-like (N,)
        Any integers from 0; -1 where unknown, in the result (int64) too.

    Raises
    ------
    ValueError
        A wrong length, another type, or a number below -1.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([], [], years=[1990] * 4)
    >>> checked_venues(graph, [4_306_400_194, -1, 12, 4_306_400_194]).tolist()
    [1, -1, 0, 1]
    """
    array = np.asarray(venues)
    if array.shape != (graph.n_papers,):
        raise ValueError(f"venues has shape {array.shape} but the graph has {graph.n_papers} papers; give one for each")
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"venues must be integers (-1 = unknown), got {array.dtype}; number the venue names first")
    if array.size and array.min() < -1:
        first = int(np.argmax(array < -1))
        raise ValueError(f"venues[{first}] is {array[first]}; venues are numbered from 0, and -1 means unknown")
    numbers, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64) - int(numbers[:1].tolist() == [-1])


def year_slots(graph: CitationGraph, venues: np.ndarray, papers: np.ndarray) -> YearSlots:
    """Collect the slots of `papers`, int32 (P,), which are all of one year; `venues` is from `checked_venues`.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([3, 3, 3], [0, 1, 2], years=[1991, 1990, 1990, 1992])
    >>> slots = year_slots(graph, np.array([7, 9, -1, 7]), np.array([3], np.int32))
    >>> slots.venues[slots.venue].tolist(), slots.cells[slots.cell].tolist()
    ([9, 7], [1990, 1991])
    """
    indptr = np.zeros(papers.size + 1, np.int64)
    _count_slots(papers, graph.ref_indptr, graph.ref_indices, venues, indptr)
    np.cumsum(indptr, out=indptr)
    cited = np.empty(indptr[-1], np.int32)
    _fill_slots(papers, graph.ref_indptr, graph.ref_indices, graph.years, venues, indptr, cited)
    cited_venues, venue = np.unique(venues[cited], return_inverse=True)
    cells, cell = np.unique(graph.years[cited], return_inverse=True)
    return YearSlots(papers, indptr, cited, venue.astype(np.int32), cell.astype(np.int32), cited_venues, cells)


def venue_pairs(slots: YearSlots) -> VenuePairs:
    """Count the pairs of venues in the reference lists of a year, each list as a multiset of slots.

    Examples
    --------
    A paper cites venue 0 twice and venue 1 once: pair (0, 0) once, (0, 1) twice.

    >>> graph = CitationGraph.from_edges([3, 3, 3], [0, 1, 2], years=[1990, 1990, 1990, 1992])
    >>> pairs = venue_pairs(year_slots(graph, np.array([0, 0, 1, 0]), np.array([3], np.int32)))
    >>> pairs.indptr.tolist(), pairs.columns.tolist(), pairs.counts.tolist()
    ([0, 2, 2], [0, 1], [1, 2])
    """
    ordered, ends, heads, bucket = sorted_slots(slots)
    n_venues = slots.venues.size
    dense = np.zeros(n_venues, np.int64)
    touched = np.empty(n_venues, np.int32)
    indptr = np.zeros(n_venues + 1, np.int64)
    empty = np.empty(0, np.int32)
    _pair_rows(ordered, ends, heads, bucket, dense, touched, indptr, empty, np.empty(0, np.int64), False)
    np.cumsum(indptr, out=indptr)
    columns, counts = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int64)
    _pair_rows(ordered, ends, heads, bucket, dense, touched, indptr, columns, counts, True)
    return VenuePairs(indptr, columns, counts)


def sorted_slots(slots: YearSlots) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Venues sorted within each paper; end of each slot's paper; and, venue by venue, where its slots are."""
    ends = np.repeat(slots.indptr[1:], np.diff(slots.indptr)).astype(np.int32)
    ordered, bucket = np.empty_like(slots.venue), np.empty(slots.venue.size, np.int32)
    heads = np.zeros(slots.venues.size + 1, np.int64)
    sort_and_bucket(slots.indptr, slots.venue, ordered, heads, bucket)
    return ordered, ends, heads, bucket


@kernel
def _count_slots(papers, ref_indptr, ref_indices, venues, indptr):
    for k in range(papers.size):
        for e in range(ref_indptr[papers[k]], ref_indptr[papers[k] + 1]):
            indptr[k + 1] += venues[ref_indices[e]] >= 0


@kernel
def _fill_slots(papers, ref_indptr, ref_indices, years, venues, indptr, cited):
    """Insertion sort by cited year within a paper; reference lists are short."""
    for k in range(papers.size):
        first = indptr[k]
        place = first
        for e in range(ref_indptr[papers[k]], ref_indptr[papers[k] + 1]):
            r = ref_indices[e]
            if venues[r] >= 0:
                i = place
                while i > first and years[cited[i - 1]] > years[r]:
                    cited[i] = cited[i - 1]
                    i -= 1
                cited[i] = r
                place += 1


@kernel
def sort_and_bucket(indptr, venue, ordered, heads, bucket):
    """Sort `venue` within each paper into `ordered`; list where venue v is, ``bucket[heads[v]:heads[v + 1]]``."""
    heads[:] = 0
    for k in range(indptr.size - 1):
        first, stop = indptr[k], indptr[k + 1]
        for s in range(first, stop):
            v = venue[s]
            heads[v + 1] += 1
            i = s
            if stop - first <= 64:
                while i > first and ordered[i - 1] > v:
                    ordered[i] = ordered[i - 1]
                    i -= 1
            ordered[i] = v
        if stop - first > 64:
            ordered[first:stop].sort()
    for v in range(heads.size - 1):
        heads[v + 1] += heads[v]
    for s in range(ordered.size - 1, -1, -1):
        v = ordered[s]
        heads[v + 1] -= 1
        bucket[heads[v + 1]] = s
    for v in range(heads.size - 1):
        heads[v] = heads[v + 1]
    heads[heads.size - 1] = ordered.size


@kernel
def _pair_rows(ordered, ends, heads, bucket, dense, touched, indptr, columns, counts, fill):
    for v in range(heads.size - 1):
        size = 0
        for b in range(heads[v], heads[v + 1]):
            s = bucket[b]
            for i in range(s + 1, ends[s]):
                other = ordered[i]
                if dense[other] == 0:
                    touched[size] = other
                    size += 1
                dense[other] += 1
        if fill:
            row = touched[:size]
            row.sort()
            for i in range(size):
                columns[indptr[v] + i] = row[i]
                counts[indptr[v] + i] = dense[row[i]]
        else:
            indptr[v + 1] = size
        for i in range(size):
            dense[touched[i]] = 0
