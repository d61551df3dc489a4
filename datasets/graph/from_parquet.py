"""Build a citation graph from parquet files that need not fit in memory: in passes, straight to memory-mapped files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as arrow

from ..atomic_files import scratch_folder
from ..errors import BadInput
from ..positions import positions_of
from ..progress import step_bars
from .checks import checked_years, require_columns
from .citation_graph import CitationGraph
from .files import GraphFiles
from .on_disk import BATCH, Advance, Citations


def build_graph(
    papers: str | Path | Sequence[str | Path],
    citations: str | Path | Sequence[str | Path],
    directory: str | Path,
    *,
    columns: tuple[str, str, str, str] = ("id", "year", "citing", "cited"),
    memory: int = 1 << 30,
    progress: bool = False,
) -> CitationGraph:
    """Build and save a graph from parquet files of papers and of citations, larger than memory if need be.

    Papers are numbered by year, then in the order of the files, which makes windows of years contiguous. Memory use is
    about 40 bytes per paper (with integers for ids) plus `memory`; citations stay on disk, read once for every `memory`
    bytes of the result.

    Parameters
    ----------
    papers, citations : path, folder, or list of paths
        Parquet. Ids of papers may be integers or strings, of the same type in both.
    directory : path
        The graph goes here, as `CitationGraph.save` would write it. It takes 16 bytes per citation while it is built,
        8 after.
    columns : (str, str, str, str)
        Names of the columns: id and year of `papers`, citing and cited of `citations`.
    memory : int
        Bytes for the piece of the graph that is being filled.
    progress : bool
        Show a progress bar.

    Returns
    -------
    CitationGraph
        Memory-mapped, with `node_ids`.

    Raises
    ------
    ValueError
        A column or a year missing, an id twice, no papers, ids of papers and of citations of two types, a damaged file.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> folder = Path(tempfile.mkdtemp())
    >>> pq.write_table(pa.table({"id": [9, 7, 8], "year": [2001, 1999, 2000]}), folder / "papers.parquet")
    >>> pq.write_table(pa.table({"citing": [9, 9, 8], "cited": [7, 5, 7]}), folder / "citations.parquet")
    >>> graph = build_graph(folder / "papers.parquet", folder / "citations.parquet", folder / "graph")
    >>> graph.node_ids.tolist(), graph.citers(0).tolist(), graph.report.unknown
    ([7, 8, 9], [1, 2], 1)
    """
    names, years = _papers(papers, *columns[:2])
    source = _dataset(citations, columns[2:])
    with GraphFiles.beside(directory) as files, scratch_folder(Path(directory, "ends")) as ends:
        # The years come first: by them a later run finds what this one leaves behind if it is killed.
        np.save(files.path("years"), years)
        np.save(files.path("node_ids"), names)
        with step_bars(progress, transient=False) as advance:
            read = _batches(citations, source, columns[2:])
            found = _found(read, source.count_rows(), names, ends, advance)
            del names
            report = found.write_graph(files, years, memory, advance)
        files.finish(years.size, report)
    return CitationGraph.load(directory)


def _papers(paths: Any, id_column: str, year_column: str) -> tuple[np.ndarray, np.ndarray]:
    source = _dataset(paths, (id_column, year_column))
    with _named_damage(paths):
        table = source.to_table(columns=[id_column, year_column])
    if table.num_rows == 0:
        raise ValueError(f"no papers in {paths}; a graph needs at least one")
    for column in (id_column, year_column):
        if table[column].null_count:
            raise ValueError(
                f"column {column!r} of {paths} is missing in {table[column].null_count} of {table.num_rows} papers; "
                "leave those papers out"
            )
    years, names = checked_years(table[year_column].to_numpy()), _names(table[id_column])
    del table
    ascending = np.sort(names)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    del ascending
    if repeated.size:
        raise ValueError(f"paper {repeated[0].item()!r} occurs more than once in {paths}; every paper needs its own id")
    order = np.argsort(years, kind="stable")
    return names[order], years[order]


def _dataset(paths: Any, columns: Sequence[str]) -> arrow.Dataset:
    source = [str(p) for p in paths] if isinstance(paths, (list, tuple)) else str(paths)
    dataset = arrow.dataset(source, format="parquet")
    require_columns(str(paths), dataset.schema.names, columns)
    return dataset


@contextmanager
def _named_damage(paths: Any) -> Iterator[None]:
    """Say which files they were whose reading failed."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{paths} cannot be read as parquet ({error}); write or fetch it again") from error


def _batches(paths: Any, source: arrow.Dataset, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    batches = source.to_batches(columns=list(columns), batch_size=BATCH)
    while True:
        with _named_damage(paths):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _names(column: Any) -> np.ndarray:
    names = column.to_numpy(zero_copy_only=False)
    return names.astype(str) if names.dtype == object else names


def _found(
    batches: Iterator[pa.RecordBatch], total: int, names: np.ndarray, folder: Path, advance: Advance
) -> Citations:
    """The citations with positions in place of ids, on disk."""
    order = np.argsort(names, kind="stable")
    found = Citations(folder, names.size)
    for batch in batches:
        ids = [_names(column) for column in batch.columns]
        for name, end in zip(batch.schema.names, ids, strict=True):
            if end.size and (end.dtype.kind == "U") != (names.dtype.kind == "U"):
                kinds = batch.schema.field(name).type, "texts" if names.dtype.kind == "U" else "numbers"
                raise BadInput(f"column {name!r} has the type {kinds[0]}, but the ids of papers are {kinds[1]}")
        citing, cited = (positions_of(end, names, order).astype(np.int32) for end in ids)
        found.add(citing, cited)
        advance("reading citations", citing.size, total)
    return found
