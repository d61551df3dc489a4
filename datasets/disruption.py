"""The CD index: do later papers cite a paper instead of, or together with, what it builds on?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .csr import year_order
from .graph import CitationGraph
from .kernel import kernel, run_chunks, thread_count

CHUNK = 4096


def disruption_counts(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the later papers that cite a paper, its references, or both.

    Parameters
    ----------
    graph : CitationGraph
    window : int or None
        A citing paper ``c`` counts for a paper of year ``t`` when ``t < year(c) <= t + window``; None has no upper end.
    threads : int, optional
        Default: every core. The result does not depend on it.

    Returns
    -------
    n_i, n_j, n_k : int64 arrays (N,)
        Papers that cite the focal paper only; it and at least one of its references; its references only.

    Raises
    ------
    ValueError
        A window that is not a positive integer or None; a graph without papers.

    Examples
    --------
    Paper 2 cites 0 and 1. Later, 3 cites 2 only, 4 cites 2 and 0, 5 cites 1 only.

    >>> graph = CitationGraph.from_edges([2, 2, 3, 4, 4, 5], [0, 1, 2, 2, 0, 1], [1990, 1990, 1992, 1994, 1994, 1995])
    >>> [n[2].item() for n in disruption_counts(graph)]
    [1, 1, 1]

    References
    ----------
    Funk & Owen-Smith (2017), "A dynamic network measure of technological change", Management Science 63(3), eq. 2.
    """
    window = checked_window(window)
    require_papers(graph)
    ranks = YearRanks(graph, threads)
    counts = np.zeros((3, graph.n_papers), np.int64)
    ranks.run(lambda papers, stamp: count_chunk(papers, graph, ranks, window, stamp, counts))
    return counts[0], counts[1], counts[2]


def cd_index(graph: CitationGraph, window: int | None = 5, *, threads: int | None = None) -> np.ndarray:
    """CD index: (n_i - n_j) / (n_i + n_j + n_k), from -1 (consolidating) to 1 (disruptive).

    A paper without references has n_j = n_k = 0, so a single citation makes it 1. That value is kept here and is an
    artefact (Holst et al. 2024): look at the reference count beside it.

    Parameters
    ----------
    graph : CitationGraph
    window : int or None
        Years after publication whose citations count, see `disruption_counts`.
    threads : int, optional

    Returns
    -------
    float64 array (N,)
        In [-1, 1]; NaN where no paper counts.

    Raises
    ------
    ValueError
        As `disruption_counts`.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([2, 2, 3, 4, 4, 5], [0, 1, 2, 2, 0, 1], [1990, 1990, 1992, 1994, 1994, 1995])
    >>> cd_index(graph)[2].item()
    0.0
    >>> cd_index(graph, window=2)[2].item()  # 5, of 1995, comes too late; 3 and 4 balance
    0.0

    References
    ----------
    Funk & Owen-Smith (2017), Management Science 63(3), eq. 2; windowed as CD_5 in Park, Leahey & Funk (2023),
    "Papers and patents are becoming less disruptive over time", Nature 613.
    Holst et al. (2024), "Dataset artefacts are the hidden drivers of the declining disruptiveness in science".
    """
    n_i, n_j, n_k = disruption_counts(graph, window, threads=threads)
    return ratio(n_i - n_j, n_i + n_j + n_k)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Elementwise quotient as float64, NaN where the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, np.true_divide(numerator, denominator))


def checked_window(window: int | None) -> int | None:
    """`window` as an int or None; raises `ValueError` when it is neither, or below 1."""
    if window is None:
        return None
    if isinstance(window, bool) or not isinstance(window, (int, np.integer)) or window < 1:
        raise ValueError(f"window must be a positive number of years, or None for no window, got {window!r}")
    return int(window)


def require_papers(graph: CitationGraph) -> None:
    """Raise `ValueError` for a graph without papers."""
    if graph.n_papers == 0:
        raise ValueError(
            "the graph has no papers (years is empty), so there is nothing to compute; check the edge and year arrays"
        )


def count_chunk(
    papers: np.ndarray,
    graph: CitationGraph,
    ranks: YearRanks,
    window: int | None,
    stamp: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Fill the columns `papers` of `counts` (3, N); `stamp` (N,) must hold no paper's position yet to come."""
    _count(papers, *count_arguments(graph, ranks, window), stamp, counts[0], counts[1], counts[2])


def count_arguments(graph: CitationGraph, ranks: YearRanks, window: int | None) -> Any:
    """What every counting kernel here reads, in its order."""
    rows = (graph.years, graph.ref_indptr, graph.ref_indices, graph.cit_indptr, ranks.citers)
    return (*rows, ranks.starts, ranks.first_year, -1 if window is None else window)


class YearRanks:
    """Papers renumbered by year, so that a window is one range of numbers, and a stamp array for each thread.

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

    def run(self, work: Callable[..., object], *, done: Callable[[int], object] | None = None) -> None:
        """Call ``work(papers, stamp)`` for all papers, piece by piece, on every thread."""

        def piece(low: int) -> None:
            try:
                stamp = self._free.pop()
            except IndexError:
                stamp = np.full(self._n_papers, -1, np.int32)
            work(self.order[low : low + CHUNK], stamp)
            self._free.append(stamp)

        run_chunks(piece, [(low,) for low in range(0, self._n_papers, CHUNK)], self._threads, done)


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
    papers, years, ref_indptr, ref_indices, cit_indptr, citers, starts, first_year, window, stamp, n_i, n_j, n_k
):
    last = starts.size - 1
    begins = np.empty(64, np.int64)
    for p in papers:
        year = years[p] - first_year
        low = starts[year + 1]
        high = starts[last if window < 0 else min(last, year + 1 + window)]
        if low == high:
            n_i[p], n_j[p], n_k[p] = 0, 0, 0
            continue
        first, stop = ref_indptr[p], ref_indptr[p + 1]
        if stop - first > begins.size:
            begins = np.empty(2 * (stop - first), np.int64)
        # Finding all the places first lets the processor wait for many memory reads at once.
        for e in range(first, stop):
            r = ref_indices[e]
            begins[e - first] = first_from(citers, cit_indptr[r], cit_indptr[r + 1], low)
        reached = 0
        for e in range(first, stop):
            for i in range(begins[e - first], cit_indptr[ref_indices[e] + 1]):
                c = citers[i]
                if c >= high:
                    break
                reached += stamp[c] != p
                stamp[c] = p
        both = 0
        alone = 0
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            c = citers[i]
            if low <= c < high:
                if stamp[c] == p:
                    both += 1
                else:
                    alone += 1
        n_i[p] = alone
        n_j[p] = both
        n_k[p] = reached - both
