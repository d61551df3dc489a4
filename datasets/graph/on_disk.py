"""The arrays of a citation graph written to disk piece by piece, from citations that lie on disk too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from .csr import (
    compact_rows,
    count_cited,
    count_rows,
    pointers,
    scatter_citing,
    scatter_rows,
    sort_rows,
    sort_rows_by_year,
)
from .files import GraphFiles, GraphReport

BATCH = 1 << 20

Advance = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it was done since the last call, and how much there is in all."""


class Citations:
    """Citations as two files of int32 positions in `folder`, and how many references each of N papers has.

    `add` appends to them, and `write_graph` writes the arrays of the graph and removes the two files.
    """

    def __init__(self, folder: Path, papers: int):
        self._folder = folder
        self._files = [(folder / name).open("wb") for name in ("citing", "cited")]
        self._counts, self._tally, self._edges = np.zeros(papers, np.int64), np.zeros(2, np.int64), 0

    def add(self, citing: np.ndarray, cited: np.ndarray) -> None:
        """Append citations, as positions of papers, int32 arrays (E,); -1 where a paper is unknown."""
        count_rows(citing, cited, 0, self._counts.size, self._counts, self._tally)
        for ends, file in zip((citing, cited), self._files, strict=True):
            ends.tofile(file)
        self._edges += citing.size

    def write_graph(self, files: GraphFiles, years: np.ndarray, memory: int, advance: Advance) -> GraphReport:
        """Write rows of references and of citing papers, a piece of `memory` bytes after another.

        `years` is int16 (N,). The citations are read once for every piece of the references, the references once for
        every piece of the citing papers. Beside the piece, about 30 bytes a paper are held.
        """
        for file in self._files:
            file.close()
        counts = self._counts
        _save(files.path("ref_indices"), self._folder, self._references(counts, memory, advance))
        np.save(files.path("ref_indptr"), pointers(counts))
        kept = int(counts.sum())
        del counts, self._counts
        for name in ("citing", "cited"):
            (self._folder / name).unlink()
        past = np.zeros(1, np.int64)
        _save(files.path("cit_indices"), self._folder, _citers(files, years, past, memory, advance))
        unknown, self_citations = self._tally.tolist()
        duplicates = self._edges - unknown - self_citations - kept
        return GraphReport(self._edges, kept, unknown, self_citations, duplicates, int(past[0]))

    def _references(self, counts: np.ndarray, memory: int, advance: Advance) -> Iterator[np.ndarray]:
        """The rows of references, piece by piece; `counts` becomes the lengths of the rows."""
        citing, cited = _mapped(self._folder / "citing"), _mapped(self._folder / "cited")
        indptr = pointers(counts)
        pieces = _pieces(indptr, memory)
        for low, high in pieces:
            piece, shifted = np.empty(indptr[high] - indptr[low], np.int32), indptr - indptr[low]
            place = shifted[:-1].copy()
            for start in range(0, citing.size, BATCH):
                part = slice(start, start + BATCH)
                scatter_rows(citing[part], cited[part], low, high, place, piece)
                advance("references", min(BATCH, citing.size - start), citing.size * len(pieces))
            del place
            sort_rows(low, high, shifted, piece, counts)
            kept = pointers(counts[low:high])
            compact_rows(shifted[low : high + 1], kept, piece)
            yield piece[: kept[-1]]
            del piece, shifted, kept  # before the next ones are made


def _citers(
    files: GraphFiles, years: np.ndarray, past: np.ndarray, memory: int, advance: Advance
) -> Iterator[np.ndarray]:
    """The rows of citing papers, piece by piece, and their pointers; adds to `past` the citations of a later year.

    The references are read in order, so the rows fill by position; where papers are numbered by year, that is by year.
    """
    ref_indptr = np.load(files.path("ref_indptr"))
    ref_indices = np.asarray(np.load(files.path("ref_indices"), mmap_mode="r" if ref_indptr[-1] else None))
    counts = np.zeros(years.size, np.int64)
    for start in range(0, ref_indices.size, BATCH):
        count_cited(ref_indices[start : start + BATCH], 0, years.size, counts)
        advance("counting citations", min(BATCH, ref_indices.size - start), ref_indices.size)
    indptr = pointers(counts)
    del counts
    np.save(files.path("cit_indptr"), indptr)
    numbered_by_year = not np.any(years[1:] < years[:-1])
    pieces = _pieces(indptr, memory)
    for low, high in pieces:
        piece, place = np.empty(indptr[high] - indptr[low], np.int32), indptr[:-1] - indptr[low]
        for start in range(0, years.size, BATCH):
            papers = np.arange(start, min(start + BATCH, years.size), dtype=np.int32)
            scatter_citing(papers, ref_indptr, ref_indices, years, low, high, place, piece, past)
            advance("citing papers", papers.size, years.size * len(pieces))
        del place
        if not numbered_by_year:
            sort_rows_by_year(indptr[low : high + 1] - indptr[low], piece, years)
        yield piece
        del piece  # before the next one is made


def _pieces(indptr: np.ndarray, memory: int) -> list[tuple[int, int]]:
    """Ranges of rows that hold at most `memory` bytes of int32 entries each (or one row)."""
    pieces, low = [], 0
    while low < indptr.size - 1:
        high = int(np.searchsorted(indptr, indptr[low] + max(1, memory // 4), side="right")) - 1
        pieces.append((low, max(low + 1, high)))
        low = pieces[-1][1]
    return pieces


def _mapped(path: Path) -> np.ndarray:
    return np.asarray(np.memmap(path, np.int32, "r")) if path.stat().st_size else np.empty(0, np.int32)


def _save(path: Path, scratch: Path, pieces: Iterable[np.ndarray]) -> None:
    """Save the int32 array that the pieces make together, of which only one is in memory at a time."""
    with (scratch / "pieces").open("wb") as file:
        for piece in pieces:
            piece.tofile(file)
            del piece
    np.save(path, _mapped(scratch / "pieces"))
