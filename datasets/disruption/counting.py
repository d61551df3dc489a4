"""The walk that every disruption measure makes: from a paper to the later papers that cite it or its references.

Papers are renumbered by year, so that a window is one range of numbers, and the papers reached from a focal paper are
marked in an array of stamps. At ten million papers nearly all of the time goes into waiting for memory; hence small
stamps, hints where to look in long lists of citers, and the fetching ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.citation_graph import CitationGraph
from ..graph.csr import year_order
from ..jit import kernel, prefetch, run_chunks, thread_count

CHUNK = 4096
# Stamps of one byte stay in the processor's cache longest, but are wiped every 255 papers: too often for long windows.
BYTE_SPAN = 1 << 22
LINE = 16  # int32 entries that are fetched from memory together


class YearRanks:
    """Papers renumbered by year, and working memory for each thread.

    Parameters
    ----------
    graph : CitationGraph
    threads : int, optional

    Attributes
    ----------
    order : int32 array (N,)
        Positions by year.
    citers : int32 array (E,)
        `graph.cit_indices` renumbered; ascending within each row.
    starts : int64 array
        First number of each year, from `first_year` to one after the last.
    """

    def __init__(self, graph: CitationGraph, threads: int | None) -> None:
        self.order = year_order(graph.years)
        self.first_year = int(graph.years.min())
        counts = np.bincount(graph.years.astype(np.int64) - self.first_year)
        self.starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.citers = graph.cit_indices
        if np.any(graph.years[1:] < graph.years[:-1]):
            rank = np.empty(graph.n_papers, np.int32)
            rank[self.order] = np.arange(graph.n_papers, dtype=np.int32)
            self.citers = np.empty_like(graph.cit_indices)
            size = -(-graph.n_citations // (4 * thread_count(threads))) or 1
            pieces = [slice(low, low + size) for low in range(0, graph.n_citations, size)]
            run_chunks(
                lambda s: rank.take(graph.cit_indices[s], out=self.citers[s], mode="clip"),
                [(s,) for s in pieces],
                threads,
            )
            self.citers.flags.writeable = False
        self._threads, self._free, self._n_papers = threads, [], graph.n_papers

    def run(self, work: Callable[..., object], window: int | None) -> None:
        """Call ``work(papers, scratch)`` for all papers, piece by piece, on every thread."""

        def piece(low: int) -> None:
            try:
                scratch = self._free.pop()
            except IndexError:
                scratch = self.new_scratch(window)
            work(self.order[low : low + CHUNK], scratch)
            self._free.append(scratch)

        run_chunks(piece, [(low,) for low in range(0, self._n_papers, CHUNK)], self._threads)

    def new_scratch(self, window: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a counting kernel writes to, for one thread and any number of calls.

        Returns
        -------
        stamp : uint8 or uint16 array (N,)
            Marks of the papers of a window, see `next_mark`.
        state : int64 array (2,)
            What `next_mark` keeps.
        hint : int32 array (N,)
            Where in the citers of each paper the last search ended, see `search`. Results do not depend on it.
        """
        last = self.starts.size - 1
        ends = np.minimum(np.arange(last + 1) + (last if window is None else window), last)
        longest = int((self.starts[ends] - self.starts).max())
        dtype = np.uint8 if longest <= BYTE_SPAN else np.uint16
        return np.zeros(self._n_papers, dtype), np.zeros(2, np.int64), np.zeros(self._n_papers, np.int32)


def count_chunk(
    papers: np.ndarray,
    graph: CitationGraph,
    ranks: YearRanks,
    window: int | None,
    scratch: tuple[np.ndarray, np.ndarray, np.ndarray],
    counts: np.ndarray,
) -> None:
    """Fill the columns `papers` of `counts` (n_i, n_j, n_k; (3, N)); `scratch` is from `YearRanks.new_scratch`."""
    _count(papers, *count_arguments(graph, ranks, window), *scratch, counts[0], counts[1], counts[2])


def count_arguments(graph: CitationGraph, ranks: YearRanks, window: int | None) -> Any:
    """What every counting kernel here reads, in its order."""
    rows = (graph.years, graph.ref_indptr, graph.ref_indices, graph.cit_indptr, ranks.citers)
    return (*rows, ranks.starts, ranks.first_year, -1 if window is None else window)


@kernel
def next_mark(stamp, state, span):
    """A number that none of `stamp` holds, to mark some of ``stamp[:span]`` with.

    `state` holds the mark given last and how far into `stamp` marks have been written; when the marks run out, that
    part is wiped and they start again.
    """
    if state[0] == np.iinfo(stamp.dtype).max:
        stamp[: state[1]] = 0
        state[0], state[1] = 0, 0
    state[0] += 1
    state[1] = max(state[1], span)
    return state[0]


@kernel
def fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint):
    """Fetch what the next papers will need: the citers of their references, from where the last search ended."""
    if k + 2 < papers.size:
        p = papers[k + 2]
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            prefetch(cit_indptr, ref_indices[e])
            prefetch(hint, ref_indices[e])
    if k + 1 < papers.size:
        p = papers[k + 1]
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            at = cit_indptr[ref_indices[e]] + hint[ref_indices[e]]
            for line in range(4):
                prefetch(citers, at + LINE * line)


@kernel
def search(citers, begin, end, low, hint, r):
    """First place in ``citers[begin:end]``, the ascending citers of `r`, that is not below `low`.

    Papers come by year, so the place is where it was last time or a little further on.
    """
    at = begin + hint[r]
    if at > begin and citers[at - 1] >= low:
        at = first_from(citers, begin, at, low)
    elif at < end and citers[at] < low:
        step = 1
        while at + step < end and citers[at + step] < low:
            at += step
            step <<= 1
        at = first_from(citers, at, min(end, at + step), low)
    hint[r] = at - begin
    return at


@kernel
def first_from(citers, begin, end, low):
    """First place in ``citers[begin:end]``, which ascends, that is not below `low`; compiles without jumps."""
    size = end - begin
    while size > 1:
        half = size >> 1
        begin += half * (citers[begin + half - 1] < low)
        size -= half
    return begin + (size == 1 and citers[begin] < low)


@kernel
def _count(
    papers,
    years,
    ref_indptr,
    ref_indices,
    cit_indptr,
    citers,
    starts,
    first_year,
    window,
    stamp,
    state,
    hint,
    n_i,
    n_j,
    n_k,
):
    last = starts.size - 1
    begins = np.empty(64, np.int64)
    for k in range(papers.size):
        p = papers[k]
        year = years[p] - first_year
        low = starts[year + 1]
        high = starts[last if window < 0 else min(last, year + 1 + window)]
        if low == high:
            n_i[p], n_j[p], n_k[p] = 0, 0, 0
            continue
        fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint)
        first, stop = ref_indptr[p], ref_indptr[p + 1]
        if stop - first > begins.size:
            begins = np.empty(2 * (stop - first), np.int64)
        # Finding all the places first lets the processor wait for many memory reads at once.
        for e in range(first, stop):
            r = ref_indices[e]
            begins[e - first] = search(citers, cit_indptr[r], cit_indptr[r + 1], low, hint, r)
        mark = next_mark(stamp, state, high - low)
        reached = 0
        for e in range(first, stop):
            for i in range(begins[e - first], cit_indptr[ref_indices[e] + 1]):
                c = citers[i]
                if c >= high:
                    break
                at = np.uint32(c - low)  # an unsigned index needs no test for a negative one
                reached += stamp[at] != mark
                stamp[at] = mark
        both = 0
        alone = 0
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if c >= high:
                break
            if c >= low:
                if stamp[np.uint32(c - low)] == mark:
                    both += 1
                else:
                    alone += 1
        n_i[p] = alone
        n_j[p] = both
        n_k[p] = reached - both
