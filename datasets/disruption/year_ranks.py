"""The papers of a graph numbered by year, and the walks that count their later citers: all at once, or part by part."""

from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..errors import BadInput
from ..graph.citation_graph import CitationGraph
from ..graph.csr import citing_rows, pointers, year_order
from ..jit import run_chunks, thread_count
from .counting import Walk

CHUNK = 4096
# Stamps of one byte stay in the processor's cache longest, but are wiped every 255 papers: too often for long windows.
BYTE_SPAN = 1 << 22
BATCH = 1 << 16
THREAD_BYTES = 1 << 20
"""What a thread holds that does not grow with the graph."""

Scratch = tuple[np.ndarray, np.ndarray, np.ndarray]
Work = Callable[[np.ndarray, Walk, Scratch], object]


class YearRanks:
    """The papers of a graph numbered by year, ties by position: the number of a paper is its *rank*."""

    def __init__(self, graph: CitationGraph, threads: int | None) -> None:
        years, order = graph.years, None
        if np.any(years[1:] < years[:-1]):
            order = year_order(years)
            years = years[order]
        self._first_year = int(years[0])
        each_year = np.arange(self._first_year, int(years[-1]) + 1).astype(years.dtype)
        self._starts = np.append(np.searchsorted(years, each_year), years.size).astype(np.int64)
        self._graph, self._threads, self._order, self._rank = graph, thread_count(threads), order, None
        if order is not None:
            self._rank = np.empty(graph.n_papers, np.int32)
            self._rank[order] = np.arange(graph.n_papers, dtype=np.int32)

    def papers(self, low: int, high: int) -> np.ndarray:
        """Positions of the papers of ranks ``low <= rank < high``, int32."""
        return np.arange(low, high, dtype=np.int32) if self._order is None else self._order[low:high]

    def walk(self, window: int | None, citing: tuple[int, int] | None = None) -> Walk:
        """What the kernels read to count, within a window, the citing papers of these ranks (None: all of them)."""
        graph = self._graph
        indptr, citers, starts = graph.cit_indptr, graph.cit_indices, self._starts
        if citing is not None:
            rows = graph.ref_indptr, graph.ref_indices, graph.years
            indptr, citers, _ = citing_rows(self.papers(*citing), *rows, self._threads)
            starts = np.clip(starts, *citing)
        if self._rank is not None:
            citers = self._ranks_of(citers, np.empty_like(citers) if citing is None else citers)
        for array in (indptr, citers):
            array.flags.writeable = False  # as in a graph: kernels are compiled for one type of array
        own = (graph.years, graph.ref_indptr, graph.ref_indices, indptr, citers)
        return Walk(*own, starts, self._first_year, -1 if window is None else window)

    def _ranks_of(self, papers: np.ndarray, out: np.ndarray) -> np.ndarray:
        rank = self._rank
        assert rank is not None
        pieces = [(slice(low, low + BATCH),) for low in range(0, papers.size, BATCH)]
        run_chunks(lambda s: rank.take(papers[s], out=out[s], mode="clip"), pieces, self._threads)
        return out

    def run(self, work: Work, window: int | None, memory: int | None = None) -> None:
        """Call ``work(papers, walk, scratch)`` for all papers in whose window papers were published.

        It is called piece by piece, on every thread, and with `memory` for one part of the citing papers after another,
        so that no part takes more than so many bytes; see `parts`.
        """
        for citing in [None] if memory is None else self.parts(memory):
            self.run_part(work, window, citing)

    def run_part(self, work: Work, window: int | None, citing: tuple[int, int] | None = None) -> tuple[int, int]:
        """`run` for one part of the citing papers; returns the ranks of the first paper and after the last."""
        walk = self.walk(window, citing)
        # Years whose windows hold papers of this part; such years lie side by side.
        counting = np.flatnonzero(_spans(walk))
        if not counting.size:
            return 0, 0
        focal = int(self._starts[counting[0]]), int(self._starts[counting[-1] + 1])
        free: list[Scratch] = []

        def piece(low: int) -> None:
            try:
                scratch = free.pop()
            except IndexError:
                scratch = new_scratch(walk)
            work(self.papers(low, min(low + CHUNK, focal[1])), walk, scratch)
            free.append(scratch)

        run_chunks(piece, [(low,) for low in range(*focal, CHUNK)], self._threads)
        return focal

    def parts(self, memory: int) -> list[tuple[int, int]]:
        """Ranges of ranks of citing papers, in order, each of which `run_part` counts in `memory` bytes.

        A part is a number of years, or a piece of one, as large as fits; see `part_bytes`. Raises `BadInput` if there
        is not enough for one paper.
        """
        parts, low, end = [], 0, self._graph.n_papers
        while low < end:
            fits = bisect_right(range(low + 1, end + 1), memory, key=lambda high: self.part_bytes(low, high))
            if not fits:
                raise BadInput(
                    f"a memory of {memory:,} bytes is too little for the CD index of {end:,} papers with "
                    f"{self._threads} threads: give {self.least_bytes:,} bytes or more, or set SCISCI_GYM_THREADS=1"
                )
            parts.append((low, low + fits))
            low += fits
        return parts

    def part_bytes(self, low: int, high: int) -> int:
        """Bytes that `run_part` takes for the citing papers of ranks ``low <= rank < high``.

        These are the rows of their citations, 4 bytes each; marks of these papers, 6 bytes each for every thread; and
        for every paper of the graph a pointer of 8 bytes, a hint of 4 for every thread, and 16 more if the papers of
        the graph are not in the order of their years. The results are not counted, nor are the pages of a memory-mapped
        graph, which the system drops when it needs the memory.
        """
        per_paper = 8 + 4 * self._threads + (0 if self._order is None else 16)
        rows = 4 * int(self._edges[high] - self._edges[low])
        marks = 6 * self._threads * (high - low)
        return rows + marks + per_paper * (self._graph.n_papers + 2) + THREAD_BYTES * self._threads

    @property
    def least_bytes(self) -> int:
        """The least that `parts` can do with: `part_bytes` of the paper with the most references."""
        return self.part_bytes(0, 1) + 4 * int(np.diff(self._edges).max() - self._edges[1])

    @cached_property
    def _edges(self) -> np.ndarray:
        """References of all papers of lower rank, int64 (N + 1,)."""
        graph = self._graph
        return graph.ref_indptr if self._order is None else pointers(graph.reference_counts[self._order])


def _spans(walk: Walk) -> np.ndarray:
    """How many papers of the walk's part there are in the window of each year, int64."""
    last = walk.starts.size - 1
    first = np.arange(1, last + 1)
    ends = np.full(last, last) if walk.window < 0 else np.minimum(first + walk.window, last)
    return walk.starts[ends] - walk.starts[first]


def new_scratch(walk: Walk) -> Scratch:
    """What a counting kernel writes to, for one thread and any number of calls on the same walk.

    These are marks of the papers of a window, uint8 or uint16, with the state of `next_mark`, int64 (2,); and where in
    the citers of each paper `move_hints` ended, int32 (N,), on which results do not depend.
    """
    longest = int(_spans(walk).max())
    dtype = np.uint8 if longest <= BYTE_SPAN else np.uint16
    return np.zeros(longest, dtype), np.zeros(2, np.int64), np.zeros(walk.years.size, np.int32)
