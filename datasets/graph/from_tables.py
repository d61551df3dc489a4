"""A citation graph from a file of papers and a file of citations; what is wrong with a row is said with its number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from ..errors import BadInput
from .checks import require_columns
from .citation_graph import CitationGraph


class GraphOfFiles(NamedTuple):
    """What `graph_of_files` returns."""

    graph: CitationGraph
    """Papers in the order of the file, with their ids as `node_ids`."""
    papers: pa.Table
    """The rows of the papers in the graph, with all their columns."""
    skipped: Counter[str]
    """How many rows were left out, by reason."""


class EdgesOfFiles(NamedTuple):
    """What `edges_of_files` returns: N papers and E citations as they stand in the files, repeated ones included."""

    ids: np.ndarray
    """int64 or str (N,)."""
    years: np.ndarray
    """int64 (N,)."""
    citing: np.ndarray
    """Position of a paper, int32 (E,)."""
    cited: np.ndarray
    """int32 (E,)."""
    papers: pa.Table
    """The rows of the N papers, with all their columns."""
    rows: np.ndarray
    """Where these rows are in the file, from 0: int64 (N,)."""
    skipped_papers: Counter[str]
    skipped_citations: Counter[str]


TEXTS = (
    "id", "year", "citing", "cited", "venue", "field", "title", "abstract", "publication_date", "doi", "type",
    "language",
)  # fmt: skip
"""Columns that are texts in a csv file, whatever they look like: "007" is not 7."""


def read_table(path: str | Path) -> pa.Table:
    """A table from a csv file, if its name ends in .csv or .csv.gz, or else from parquet.

    In a csv file the columns `TEXTS` are texts, and a value is missing only where nothing stands ("NA" is a text).
    A text may have line breaks in it where it is quoted. Raises `FileNotFoundError` if there is no such file, and
    `BadInput` if it cannot be read.
    """
    name = str(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"no file {name}; give a table, csv or parquet")
    types = dict.fromkeys(TEXTS, pa.string())
    options = csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True)
    as_csv = name.endswith((".csv", ".csv.gz"))
    try:
        breaks = csv.ParseOptions(newlines_in_values=True)
        return csv.read_csv(name, parse_options=breaks, convert_options=options) if as_csv else pq.read_table(name)
    except pa.ArrowInvalid as error:
        wrong = "cannot be read as csv" if as_csv else "is not named .csv or .csv.gz and is no parquet file"
        raise BadInput(f"{name} {wrong}: {error}") from error


def graph_of_files(papers: str | Path, citations: str | Path, *, skip_bad: bool = False) -> GraphOfFiles:
    """Build a graph from a table of papers and a table of citations, see `read_table`.

    Parameters
    ----------
    papers : path
        Columns ``id`` (integers or strings) and ``year``, one row per paper; others are kept.
    citations : path
        Columns ``citing`` and ``cited``, ids of papers, one row per citation.
    skip_bad : bool
        Leave out and count rows that are refused otherwise.

    Raises
    ------
    BadInput
        A row without id or with an id of an earlier row, without a whole year in [0, 9999], or with an end that is no
        paper of `papers`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "p.csv").write_text("id,year\\na,1990\\nb,1992\\n")
    >>> _ = (folder / "c.csv").write_text("citing,cited\\nb,a\\nb,x\\n")
    >>> graph, _, skipped = graph_of_files(folder / "p.csv", folder / "c.csv", skip_bad=True)
    >>> graph.n_citations, dict(skipped)
    (1, {'cited is no id of the papers': 1})
    """
    read = edges_of_files(papers, citations, skip_bad=skip_bad)
    graph = CitationGraph.from_edges(read.citing, read.cited, read.years, read.ids)
    return GraphOfFiles(graph, read.papers, read.skipped_papers + read.skipped_citations)


def edges_of_files(
    papers: str | Path, citations: str | Path, *, skip_bad: bool = False, years: tuple[int, int] = (0, 9999)
) -> EdgesOfFiles:
    """Read a table of papers and a table of citations, and find the papers that the citations speak of.

    Parameters and errors are those of `graph_of_files`; `years` are the first and the last year that a paper may have.
    """
    import pandas as pd

    table, ends = read_table(papers), read_table(citations)
    require_columns(str(papers), table.column_names, ("id", "year"))
    require_columns(str(citations), ends.column_names, ("citing", "cited"))
    # A column of integers that has missing values may have been written as floats.
    ids = [
        column.cast(pa.int64()) if pa.types.is_floating(column.type) else column
        for column in (table["id"], *ends.select(["citing", "cited"]).columns)
    ]
    numbers = all(pa.types.is_integer(column.type) for column in ids)
    columns = (column if numbers else column.cast(pa.string()) for column in ids)
    id_, citing, cited = (column.to_pandas(integer_object_nulls=True) for column in columns)
    skipped: Counter[str] = Counter()
    in_range = "" if years == (0, 9999) else f" from {years[0]} to {years[1]}"

    rows: Any = pd.DataFrame({"id": id_, "year": table["year"].to_pandas()})
    rows = _kept(rows, rows["id"].isna(), "id is missing", papers, skip_bad, skipped)
    year: Any = pd.to_numeric(rows["year"], errors="coerce")
    whole = year.between(*years) & (year % 1 == 0)
    rows = _kept(rows, ~whole, f"year is no year{in_range}", papers, skip_bad, skipped)
    rows = _kept(rows, rows["id"].duplicated(), "id is that of an earlier row", papers, skip_bad, skipped)
    index = pd.Index(rows["id"])

    left_out: Counter[str] = Counter()
    edges: Any = pd.DataFrame({"citing": citing, "cited": cited})
    for end in ("citing", "cited"):
        edges = _kept(edges, edges[end].isna(), f"{end} is missing", citations, skip_bad, left_out)
        known = index.get_indexer(edges[end]) >= 0
        edges = _kept(edges, ~known, f"{end} is no id of the papers", citations, skip_bad, left_out)
    citing, cited = (index.get_indexer(edges[end]).astype(np.int32) for end in ("citing", "cited"))
    return EdgesOfFiles(
        ids=rows["id"].to_numpy(np.int64 if numbers else str),
        years=year[rows.index].to_numpy(np.int64),
        citing=citing,
        cited=cited,
        papers=table.take(rows.index.to_numpy()),
        rows=rows.index.to_numpy(),
        skipped_papers=skipped,
        skipped_citations=left_out,
    )


def _kept(rows: Any, bad: Any, problem: str, path: str | Path, skip_bad: bool, skipped: Counter[str]) -> Any:
    """A DataFrame without its bad rows, or `BadInput` with the first of them. Its index is the places in the file."""
    bad = np.asarray(bad)
    if not bad.any():
        return rows
    first, more = rows.index[bad][0], int(bad.sum()) - 1
    values = ", ".join(f"{name} {value}" for name, value in rows.loc[first].items())
    if not skip_bad:
        raise BadInput(
            f"{path}, row {first + 1} below the header ({values}): {problem}"
            + (f", and {more:,} rows like it" if more else "")
            + "; correct the file, or leave such rows out with --skip-bad"
        )
    skipped[problem] += more + 1
    return rows[~bad]
