"""The walk that every disruption measure makes: from a paper to the later papers that cite it or its references.

Papers are renumbered by year, so that a window is one range of numbers, and the papers reached from a focal paper are
marked in an array of stamps. At ten million papers nearly all of the time goes into waiting for memory. Hence the small
stamps, the hints where to look in long lists of citers, and the prefetching.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..compat import prefetch
from ..graph.citation_graph import CitationGraph
from ..graph.csr import year_order
from ..jit import kernel, run_chunks, thread_count

CHUNK = 4096
# Stamps of one byte stay in the processor's cache longest, but are wiped every 255 papers: too often for long windows.
BYTE_SPAN = 1 << 22
LINE = 16  # int32 entries that are fetched from memory together


class Walk(NamedTuple):
    """What every counting kernel reads. Inner kernels take single arrays: a whole `Walk` costs them 75 ns a call."""

    years: np.ndarray
    ref_indptr: np.ndarray
    ref_indices: np.ndarray
    cit_indptr: np.ndarray
    citers: np.ndarray
    """`CitationGraph.cit_indices` renumbered by year, int32 (E,); ascending within each row."""
    starts: np.ndarray
    """First number of each year, int64, from `first_year` to one after the last."""
    first_year: int
    window: int
    """-1 for none."""


class YearRanks:
    """The papers of a graph renumbered by year (`order`, int32 (N,)), and working memory for each thread."""

    def __init__(self, graph: CitationGraph, threads: int | None) -> None:
        self.order = year_order(graph.years)
        self._first_year = int(graph.years.min())
        counts = np.bincount(graph.years.astype(np.int64) - self._first_year)
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self._citers = graph.cit_indices
        if np.any(graph.years[1:] < graph.years[:-1]):
            rank = np.empty(graph.n_papers, np.int32)
            rank[self.order] = np.arange(graph.n_papers, dtype=np.int32)
            self._citers = np.empty_like(graph.cit_indices)
            size = -(-graph.n_citations // (4 * thread_count(threads))) or 1
            pieces = [(slice(low, low + size),) for low in range(0, graph.n_citations, size)]
            run_chunks(lambda s: rank.take(graph.cit_indices[s], out=self._citers[s], mode="clip"), pieces, threads)
            self._citers.flags.writeable = False
        self._graph, self._threads, self._free = graph, threads, []

    def walk(self, window: int | None) -> Walk:
        """What the kernels read to count the citations of a window."""
        graph = self._graph
        rows = (graph.years, graph.ref_indptr, graph.ref_indices, graph.cit_indptr, self._citers)
        return Walk(*rows, self._starts, self._first_year, -1 if window is None else window)

    def run(self, work: Callable[..., object], window: int | None) -> None:
        """Call ``work(papers, scratch)`` for all papers, piece by piece, on every thread."""

        def piece(low: int) -> None:
            try:
                scratch = self._free.pop()
            except IndexError:
                scratch = self.new_scratch(window)
            work(self.order[low : low + CHUNK], scratch)
            self._free.append(scratch)

        run_chunks(piece, [(low,) for low in range(0, self._graph.n_papers, CHUNK)], self._threads)

    def new_scratch(self, window: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a counting kernel writes to, for one thread and any number of calls.

        These are marks of the papers of a window, uint8 or uint16 (N,), with the state of `next_mark`, int64 (2,); and
        where in the citers of each paper the last `search` ended, int32 (N,), on which results do not depend.
        """
        last = self._starts.size - 1
        ends = np.minimum(np.arange(last + 1) + (last if window is None else window), last)
        longest = int((self._starts[ends] - self._starts).max())
        dtype = np.uint8 if longest <= BYTE_SPAN else np.uint16
        return np.zeros(self._graph.n_papers, dtype), np.zeros(2, np.int64), np.zeros(self._graph.n_papers, np.int32)


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
            place = cit_indptr[ref_indices[e]] + hint[ref_indices[e]]
            for line in range(4):
                prefetch(citers, place + LINE * line)


@kernel
def search(citers, begin, end, low, hint, r):
    """First place in ``citers[begin:end]``, the ascending citers of `r`, that is not below `low`.

    Papers come by year, so the place is where it was last time or a little further on.
    """
    place = begin + hint[r]
    if place > begin and citers[place - 1] >= low:
        place = first_from(citers, begin, place, low)
    elif place < end and citers[place] < low:
        step = 1
        while place + step < end and citers[place + step] < low:
            place += step
            step <<= 1
        place = first_from(citers, place, min(end, place + step), low)
    hint[r] = place - begin
    return place


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
def bounds(starts, year, window):
    """First number inside the window of a paper of the `year`-th year of the data, and the first beyond it."""
    last = starts.size - 1
    return starts[year + 1], starts[last if window < 0 else min(last, year + 1 + window)]


@kernel
def count(papers, walk, scratch, n):
    """Fill the columns `papers` of `n`, int64 (3, N), with n_i, n_j and n_k; `scratch` is from `new_scratch`."""
    stamp, state, hint = scratch
    ref_indptr, ref_indices, cit_indptr, citers = walk.ref_indptr, walk.ref_indices, walk.cit_indptr, walk.citers
    begins = np.empty(64, np.int64)
    for k in range(papers.size):
        p = papers[k]
        low, high = bounds(walk.starts, walk.years[p] - walk.first_year, walk.window)
        if low == high:
            n[0, p], n[1, p], n[2, p] = 0, 0, 0
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
                slot = np.uint32(c - low)  # an unsigned index needs no test for a negative one
                reached += stamp[slot] != mark
                stamp[slot] = mark
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
        n[0, p], n[1, p], n[2, p] = alone, both, reached - both


@kernel
def count_shared(papers, walk, scratch, n, least, shared):
    """Add to `n`, int64 (5, N): n_i, n_j, n_k, papers that share at least `least` references, shared references.

    `shared` is int32 (N,) of any content.
    """
    stamp, state, hint = scratch
    ref_indptr, ref_indices, cit_indptr, citers = walk.ref_indptr, walk.ref_indices, walk.cit_indptr, walk.citers
    for k in range(papers.size):
        fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint)
        p = papers[k]
        low, high = bounds(walk.starts, walk.years[p] - walk.first_year, walk.window)
        mark = next_mark(stamp, state, high - low)
        reached = 0
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            r = ref_indices[e]
            for i in range(search(citers, cit_indptr[r], cit_indptr[r + 1], low, hint, r), cit_indptr[r + 1]):
                c = citers[i]
                if c >= high:
                    break
                slot = np.uint32(c - low)
                if stamp[slot] != mark:
                    stamp[slot] = mark
                    shared[slot] = 0
                    reached += 1
                shared[slot] += 1
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if low <= c < high:
                slot = np.uint32(c - low)
                if stamp[slot] == mark:
                    n[1, p] += 1
                    n[3, p] += shared[slot] >= least
                    n[4, p] += shared[slot]
                else:
                    n[0, p] += 1
        n[2, p] = reached - n[1, p]


@kernel
def count_by_year(papers, walk, scratch, n):
    """Add to `n`, int64 (3, N, window): n_i, n_j and n_k by the year in which a citing paper first counts."""
    stamp, state, hint = scratch
    ref_indptr, ref_indices, cit_indptr, citers = walk.ref_indptr, walk.ref_indices, walk.cit_indptr, walk.citers
    for k in range(papers.size):
        fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint)
        p = papers[k]
        ends = walk.starts[walk.years[p] - walk.first_year + 2 :]  # of the years after publication
        low, high = bounds(walk.starts, walk.years[p] - walk.first_year, walk.window)
        mark = next_mark(stamp, state, high - low)
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            r = ref_indices[e]
            after = 0
            for i in range(search(citers, cit_indptr[r], cit_indptr[r + 1], low, hint, r), cit_indptr[r + 1]):
                c = citers[i]
                if c >= high:
                    break
                while c >= ends[after]:
                    after += 1
                slot = np.uint32(c - low)
                n[2, p, after] += stamp[slot] != mark
                stamp[slot] = mark
        after = 0
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if low <= c < high:
                while c >= ends[after]:
                    after += 1
                if stamp[np.uint32(c - low)] == mark:
                    n[1, p, after] += 1
                    n[2, p, after] -= 1
                else:
                    n[0, p, after] += 1
