"""`WorksTable`: the works of a source, one row each; ids and years at hand, texts read when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import MatchSubstringOptions, SetLookupOptions, call_function

from ..atomic_files import scratch_folder
from ..disk_arrays import held, new_array
from ..graph.checks import checked_years
from ..graph.citation_graph import CitationGraph
from ..graph.files import GraphFiles, GraphReport
from ..graph.on_disk import Citations
from ..positions import positions_of
from .merged_ids import RetiredIds
from .record import WORKS_SCHEMA


@dataclass(frozen=True, eq=False)
class WorksTable:
    """Rows of the works table, held in memory or in parquet shards, without those that were taken out.

    Make one with `of_table` or `of_shards`. Row ``p`` of every method's result is the same work: node ``p`` of the
    citation graph. `work_id`, int64 (N,), and `year`, int32 (N,), are in memory for a table in memory and in temporary
    files for shards. `kept`, bool, marks the rows of each piece that are in, None for all; `retired` are the ids to
    replace in reference lists. `names`, str (N,), are ids that are not OpenAlex's own; None where they are "W" and
    `work_id`.
    """

    pieces: tuple[pa.Table | Path, ...]
    kept: tuple[np.ndarray | None, ...]
    work_id: np.ndarray
    year: np.ndarray
    retired: RetiredIds | None = None
    names: np.ndarray | None = None

    @classmethod
    def of_table(cls, table: pa.Table, names: np.ndarray | None = None) -> WorksTable:
        """From a table with `WORKS_SCHEMA`."""
        return replace(cls._of((table,)), names=names)

    @classmethod
    def of_shards(cls, shards: Sequence[Path]) -> WorksTable:
        """From parquet files with `WORKS_SCHEMA`."""
        return cls._of(tuple(shards))

    @classmethod
    def _of(cls, pieces: tuple[pa.Table | Path, ...]) -> WorksTable:
        ends = np.cumsum([0, *map(_length, pieces)]).tolist()
        ids, years = (new_array((ends[-1],), dtype, _on_disk(pieces)) for dtype in (np.int64, np.int32))
        for piece, rows in zip(pieces, map(slice, ends, ends[1:]), strict=True):
            narrow = _columns(piece, ["work_id", "publication_year"])
            ids[rows], years[rows] = narrow["work_id"].to_numpy(), narrow["publication_year"].to_numpy()
        return cls(pieces, (None,) * len(pieces), ids, years)

    @property
    def num_rows(self) -> int:
        """Number of works, N."""
        return self.work_id.size

    def without_repeats(self, dropped: Counter[str]) -> WorksTable:
        """Keep the last row of each id: a snapshot that was kept up to date holds older versions before newer ones."""
        order = np.argsort(self.work_id, kind="stable")
        ids = self.work_id[order]
        repeated = order[:-1][ids[1:] == ids[:-1]]
        dropped["repeated_id"] += repeated.size
        keep = np.ones(self.num_rows, bool)
        keep[repeated] = False
        return self.where(keep)

    def without_retired(self, retired: RetiredIds, dropped: Counter[str]) -> WorksTable:
        """Leave out works that were merged away or deleted, and follow merges in everybody's references."""
        gone = retired.contains(self.work_id)
        deleted = gone & (retired.current(self.work_id) < 0)
        dropped["deleted_id"] += int(deleted.sum())
        dropped["merged_id"] += int((gone & ~deleted).sum())
        return replace(self.where(~gone), retired=retired if retired.ids.size else None)

    def where(self, keep: np.ndarray) -> WorksTable:
        """The works where `keep`, bool (N,), is true."""
        if keep.all():
            return self
        kept = []
        for before, mine in zip(self.kept, np.split(keep, np.cumsum(self.lengths())[:-1]), strict=True):
            if mine.all():
                kept.append(before)
            elif before is None:
                kept.append(mine)
            else:
                kept.append(before.copy())
                kept[-1][np.flatnonzero(before)] = mine
        on_disk = _on_disk(self.pieces)
        ids, years = held(self.work_id[keep], on_disk), held(self.year[keep], on_disk)
        names = None if self.names is None else self.names[keep]
        return replace(self, kept=tuple(kept), work_id=ids, year=years, names=names)

    def ids(self, positions: np.ndarray) -> list[str]:
        """The ids of the works at `positions`: those of `names`, or such as "W2100837269"."""
        if self.names is not None:
            return self.names[positions].tolist()
        return [f"W{number}" for number in self.work_id[positions].tolist()]

    def lengths(self) -> list[int]:
        """Number of works of each piece, in order."""
        pieces = zip(self.pieces, self.kept, strict=True)
        return [_length(piece) if kept is None else int(np.count_nonzero(kept)) for piece, kept in pieces]

    def scan(self, columns: list[str]) -> Iterator[pa.Table]:
        """Columns of all works, piece after piece, in order."""
        for piece, kept in zip(self.pieces, self.kept, strict=True):
            if kept is None:
                yield _columns(piece, columns)
            else:
                yield pa.concat_tables(_taken(piece, np.flatnonzero(kept), columns))

    def column(self, name: str) -> np.ndarray:
        """A numeric or boolean column, array (N,)."""
        parts = [piece[name].to_numpy() for piece in self.scan([name])]
        return np.concatenate(parts) if parts else np.empty(0)

    def categories(self, name: str) -> pa.DictionaryArray:
        """A text column with few different values, as a dictionary array (N,)."""
        parts = [piece[name].combine_chunks().dictionary_encode() for piece in self.scan([name])]
        column = pa.chunked_array(parts, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries().combine_chunks()
        numbers = held(column.indices.to_numpy(), _on_disk(self.pieces))
        return pa.DictionaryArray.from_arrays(numbers, column.dictionary)

    def is_empty(self, name: str) -> np.ndarray:
        """Where a text column is "", bool (N,)."""
        return self._test(name, lambda texts: call_function("equal", [texts, pa.scalar("")]))

    def is_in(self, name: str, values: Sequence[str]) -> np.ndarray:
        """Where a text column is one of `values`, bool (N,)."""
        wanted = SetLookupOptions(pa.array(values, pa.string()))
        return self._test(name, lambda texts: call_function("is_in", [texts], wanted))

    def matches(self, name: str, pattern: str) -> np.ndarray:
        """Where a text column has a match of a regular expression (RE2), bool (N,)."""
        options = MatchSubstringOptions(pattern)
        return self._test(name, lambda texts: call_function("match_substring_regex", [texts], options))

    def _test(self, name: str, test: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> np.ndarray:
        parts = [test(piece[name]).to_numpy() for piece in self.scan([name])]
        return np.concatenate(parts) if parts else np.empty(0, bool)

    def references(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """``(number of references of each work, ids of the cited works)`` of one piece after the other."""
        for piece in self.scan(["referenced_works"]):
            lists = piece["referenced_works"].combine_chunks()
            cited = lists.flatten().to_numpy()
            yield lists.value_lengths().to_numpy(), cited if self.retired is None else self.retired.current(cited)

    def rows(self, positions: np.ndarray, columns: list[str] | None = None) -> pa.Table:
        """The works at `positions`, in that order, read from where they lie; see `MappedRows` for many times a few."""
        columns = columns or WORKS_SCHEMA.names
        return in_order(positions, lambda ascending: self.taken(ascending, columns), columns)

    def taken(self, positions: np.ndarray, columns: list[str]) -> Iterator[pa.Table]:
        """The works at ascending `positions`, those of one row group of a shard after the other."""
        for index, local in by_piece(positions, self.lengths()):
            kept = self.kept[index]
            yield from _taken(self.pieces[index], local if kept is None else np.flatnonzero(kept)[local], columns)

    def to_table(self) -> pa.Table:
        """Everything in memory, merges in the references carried out."""
        table = pa.concat_tables(self.scan(WORKS_SCHEMA.names)) if self.pieces else WORKS_SCHEMA.empty_table()
        if self.retired is None:
            return table
        column = WORKS_SCHEMA.get_field_index("referenced_works")
        lists = []
        for lengths, cited in self.references():
            alive = cited >= 0
            owner = np.repeat(np.arange(lengths.size), lengths)[alive]
            offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=lengths.size))])
            lists.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(cited[alive])))
        return table.set_column(column, WORKS_SCHEMA.field(column), pa.chunked_array(lists))


def citation_graph(
    works: pa.Table | WorksTable, folder: Path | None = None, memory: int | None = None
) -> CitationGraph:
    """Citation graph of a works table; node ``p`` is row ``p``, references to works that are not there are counted.

    References to a work of a later year are left out and counted. They come from a later version of a record, written
    when that work was there: through them the label of a paper would depend on papers of years after its window.

    With `memory`, in bytes, the graph is written to `folder` in pieces for which that suffices (at least a quarter of
    it, where there are many papers) and mapped into memory; it is the same graph.
    """
    works = works if isinstance(works, WorksTable) else WorksTable.of_table(works)
    node_ids = works.work_id if works.names is None else works.names
    if folder is None or memory is None:
        citing, cited = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        left_out = 0
        for papers, rows, later in _ends(works):
            left_out += later
            citing.append(papers)
            cited.append(rows)
        graph = CitationGraph.from_edges(np.concatenate(citing), np.concatenate(cited), works.year, node_ids)
        return replace(graph, report=_with_left_out(graph.report, left_out))
    years = checked_years(works.year)
    with GraphFiles.beside(folder) as files, scratch_folder(Path(folder, "ends")) as ends:
        np.save(files.path("years"), years)
        np.save(files.path("node_ids"), node_ids)
        found, left_out = Citations(ends, years.size), 0
        for papers, rows, later in _ends(works):
            left_out += later
            found.add(papers, rows)
        piece = max(memory - 32 * years.size, memory // 4)  # beside it `write_graph` holds 30 bytes a paper
        report = found.write_graph(files, years, piece, lambda step, done, total: None)
        files.finish(years.size, _with_left_out(report, left_out))
    return CitationGraph.load(folder)


def _ends(works: WorksTable) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Citing and cited papers as positions, int32, -1 where unknown, of one piece of the works after the other, and how
    many citations of a paper of a later year are left out."""
    order, first = np.argsort(works.work_id, kind="stable"), 0
    for lengths, cited_ids in works.references():
        papers = np.repeat(np.arange(first, first + lengths.size, dtype=np.int32), lengths)
        first += lengths.size
        rows = positions_of(cited_ids, works.work_id, order).astype(np.int32)
        later = (rows >= 0) & (works.year[rows] > works.year[papers])
        yield papers[~later], rows[~later], int(later.sum())


def _with_left_out(report: GraphReport, left_out: int) -> GraphReport:
    return replace(report, edges=report.edges + left_out, left_out=left_out)


def _on_disk(pieces: Sequence[pa.Table | Path]) -> bool:
    return any(isinstance(piece, Path) for piece in pieces)


def _length(piece: pa.Table | Path) -> int:
    return pq.read_metadata(piece).num_rows if isinstance(piece, Path) else piece.num_rows


def _columns(piece: pa.Table | Path, columns: list[str]) -> pa.Table:
    return pq.read_table(piece, columns=columns) if isinstance(piece, Path) else piece.select(columns)


def in_order(positions: np.ndarray, taken: Callable[[np.ndarray], Iterator[pa.Table]], columns: list[str]) -> pa.Table:
    """The rows at `positions`, in that order, by a function that gives those at ascending positions, table by table."""
    order = np.argsort(positions, kind="stable")
    tables = list(taken(positions[order]))
    if not tables:
        return pa.schema([WORKS_SCHEMA.field(name) for name in columns]).empty_table()
    back = np.empty(order.size, np.int64)
    back[order] = np.arange(order.size)
    return pa.concat_tables(tables).take(pa.array(back))


def by_piece(rows: np.ndarray, lengths: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    """The pieces, of some lengths one after the other, that hold ascending `rows`, and which rows of each these are."""
    ends = np.cumsum(lengths)
    cuts = np.searchsorted(rows, ends)
    for index, (low, high) in enumerate(pairwise([0, *cuts])):
        if low < high:
            yield index, rows[low:high] - (ends[index] - lengths[index])


def _taken(piece: pa.Table | Path, rows: np.ndarray, columns: list[str]) -> Iterator[pa.Table]:
    """Rows of a piece by ascending position; of a shard only the row groups that hold one are read."""
    if not isinstance(piece, Path):
        yield piece.select(columns).take(pa.array(rows))
        return
    with pq.ParquetFile(piece) as shard:
        lengths = [shard.metadata.row_group(group).num_rows for group in range(shard.num_row_groups)]
        yield shard.schema_arrow.empty_table().select(columns)
        for group, local in by_piece(rows, lengths):
            yield shard.read_row_group(group, columns=columns).take(pa.array(local))
