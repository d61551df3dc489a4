"""The walk that every disruption measure makes: from a paper to the later papers that cite it or its references.

Papers are renumbered by year, so that a window is one range of numbers, and the papers reached from a focal paper are
marked in an array of stamps. At ten million papers nearly all of the time goes into waiting for memory. Hence the small
stamps, the hints where to look in long lists of citers, and the prefetching. Where a graph fits into the cache, it goes
into jumps that the processor does not foresee, and into numba's care for arrays that are passed on and for negative
indices. Hence `inlined`, the unsigned indices and the search that looks at one place after another.
"""

from typing import NamedTuple

import numpy as np

from ..compat import prefetch
from ..jit import inlined, kernel

LINE = 16  # int32 entries that are fetched from memory together


class Walk(NamedTuple):
    """What every counting kernel reads, made by `YearRanks`.

    Counts over all citing papers are sums of counts over parts of them: a walk may hold the rows of one part only.
    Inner functions take single arrays: a whole `Walk` costs them 75 ns a call.
    """

    years: np.ndarray
    ref_indptr: np.ndarray
    ref_indices: np.ndarray
    cit_indptr: np.ndarray
    citers: np.ndarray
    """`CitationGraph.cit_indices` renumbered by year, int32 (E,), or a part of them; ascending within each row."""
    starts: np.ndarray
    """First number of each year, int64, from `first_year` to one after the last; clipped to the part, if it is one."""
    first_year: int
    window: int
    """-1 for none."""


@inlined
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


@inlined
def fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint):
    """Fetch what the next papers will need: the citers of their references, from where the hints are."""
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


@inlined
def move_hints(p, ref_indptr, ref_indices, cit_indptr, citers, hint, low):
    """Make the hint of every paper that `p` cites say where, in its ascending citers, the first not below `low` is.

    Papers come by year, so that is where it was last time, or a few places further on: they are looked at one by one,
    whose jumps the processor foresees better than those of a search by halves. All hints are moved before any citer is
    marked, so that the processor can wait for many memory reads at once.
    """
    for e in range(ref_indptr[p], ref_indptr[p + 1]):
        r = ref_indices[e]
        begin, end = cit_indptr[r], cit_indptr[r + 1]
        place = begin + hint[r]
        if place > begin and citers[place - 1] >= low:
            place = first_from(citers, begin, place, low)
        near = min(end, place + LINE)
        while place < near and citers[place] < low:
            place += 1
        if place == near < end:  # many citers in one year, or the first call
            place = first_from(citers, place, end, low)
        hint[r] = place - begin


@inlined
def first_from(citers, begin, end, low):
    """First place in ``citers[begin:end]``, which ascends, that is not below `low`; compiles without jumps."""
    size = end - begin
    while size > 1:
        half = size >> 1
        begin += half * (citers[begin + half - 1] < low)
        size -= half
    return begin + (size == 1 and citers[begin] < low)


@inlined
def unsigned_range(begin, end):
    """``range(begin, end)`` for indices without a sign: numba asks of one that has a sign whether it is negative."""
    return range(np.uint64(begin), np.uint64(end))


@inlined
def bounds(starts, year, window):
    """First number inside the window of a paper of the `year`-th year of the data, and the first beyond it."""
    last = starts.size - 1
    return starts[year + 1], starts[last if window < 0 else min(last, year + 1 + window)]


@kernel
def count(papers, walk, scratch, n):
    """Add n_i, n_j and n_k to the columns `papers` of `n`, int64 (3, N); `scratch` is from `new_scratch`."""
    stamp, state, hint = scratch
    ref_indptr, ref_indices, cit_indptr, citers = walk.ref_indptr, walk.ref_indices, walk.cit_indptr, walk.citers
    for k in range(papers.size):
        p = papers[k]
        low, high = bounds(walk.starts, walk.years[p] - walk.first_year, walk.window)
        if low == high:
            continue
        fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint)
        move_hints(p, ref_indptr, ref_indices, cit_indptr, citers, hint, low)
        mark = next_mark(stamp, state, high - low)
        span = np.uint32(high - low)
        reached = 0
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            r = ref_indices[e]
            for i in unsigned_range(cit_indptr[r] + hint[r], cit_indptr[r + 1]):
                slot = np.uint32(citers[i] - low)  # what is below `low` becomes a large number
                if slot >= span:
                    break
                reached += stamp[slot] != mark
                stamp[slot] = mark
        both = 0
        alone = 0
        for i in unsigned_range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if c >= high:
                break
            if c >= low:
                if stamp[np.uint32(c - low)] == mark:
                    both += 1
                else:
                    alone += 1
        n[0, p] += alone
        n[1, p] += both
        n[2, p] += reached - both


@kernel
def count_shared(papers, walk, scratch, n, least, shared):
    """Add to `n`, int64 (5, N): n_i, n_j, n_k, papers that share at least `least` references, shared references.

    `shared` is int32, as long as the marks of `scratch`, of any content.
    """
    stamp, state, hint = scratch
    ref_indptr, ref_indices, cit_indptr, citers = walk.ref_indptr, walk.ref_indices, walk.cit_indptr, walk.citers
    for k in range(papers.size):
        fetch_ahead(papers, k, ref_indptr, ref_indices, cit_indptr, citers, hint)
        p = papers[k]
        low, high = bounds(walk.starts, walk.years[p] - walk.first_year, walk.window)
        move_hints(p, ref_indptr, ref_indices, cit_indptr, citers, hint, low)
        mark = next_mark(stamp, state, high - low)
        span = np.uint32(high - low)
        reached = 0
        both = 0
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            r = ref_indices[e]
            for i in unsigned_range(cit_indptr[r] + hint[r], cit_indptr[r + 1]):
                slot = np.uint32(citers[i] - low)
                if slot >= span:
                    break
                if stamp[slot] != mark:
                    stamp[slot] = mark
                    shared[slot] = 0
                    reached += 1
                shared[slot] += 1
        for i in unsigned_range(cit_indptr[p], cit_indptr[p + 1]):
            slot = np.uint32(citers[i] - low)
            if slot < span:
                if stamp[slot] == mark:
                    both += 1
                    n[3, p] += shared[slot] >= least
                    n[4, p] += shared[slot]
                else:
                    n[0, p] += 1
        n[1, p] += both
        n[2, p] += reached - both


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
        move_hints(p, ref_indptr, ref_indices, cit_indptr, citers, hint, low)
        mark = next_mark(stamp, state, high - low)
        for e in range(ref_indptr[p], ref_indptr[p + 1]):
            r = ref_indices[e]
            after = 0
            for i in unsigned_range(cit_indptr[r] + hint[r], cit_indptr[r + 1]):
                c = citers[i]
                if c >= high:
                    break
                while c >= ends[after]:
                    after += 1
                slot = np.uint32(c - low)
                n[2, p, after] += stamp[slot] != mark
                stamp[slot] = mark
        after = 0
        for i in unsigned_range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if low <= c < high:
                while c >= ends[after]:
                    after += 1
                if stamp[np.uint32(c - low)] == mark:
                    n[1, p, after] += 1
                    n[2, p, after] -= 1
                else:
                    n[0, p, after] += 1
