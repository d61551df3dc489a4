"""A corpus of one's own: a table of papers and a table of citations, with any ids, as a works table."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from .errors import BadInput
from .graph.checks import require_columns
from .graph.from_tables import EdgesOfFiles, edges_of_files
from .openalex.record import WORKS_SCHEMA, normalised_doi, text
from .openalex.works_table import WorksTable
from .paper import FIRST_YEAR, LAST_YEAR

REPORTED = {
    "title": "carry no label",
    "abstract": "carry no label",
    "venue": "count for no measure of novelty where they are cited",
    "field": "are compared with one another",
}
"""Texts whose absence is reported, and what follows from it."""


class OwnCorpus(NamedTuple):
    """What `read_corpus` returns."""

    works: WorksTable
    """Work ``p`` has the `work_id` p and the name that it has in the file."""
    dropped: Counter[str]
    """Rows of papers that were left out, by reason."""
    dropped_citations: Counter[str]
    """Rows of citations that were left out, by reason."""
    excluded: frozenset[int]
    """Works that the column ``excluded`` says are to carry no label."""
    gaps: list[str]
    """Sentences about missing values, each with the first row that lacks one."""


def read_corpus(papers: str | Path, citations: str | Path, *, skip_bad: bool = False) -> OwnCorpus:
    """Read a corpus from two tables, csv or parquet (see `read_table`).

    Parameters
    ----------
    papers : path
        One row per paper: ``id`` (integers or strings), ``year``, ``title``, ``abstract`` and any of ``venue``,
        ``field``, ``publication_date`` (YYYY-MM-DD), ``doi``, ``type`` and ``language`` (as in OpenAlex: "article",
        "en"), ``authors_count``, ``cited_by_count`` (without it, the citations in the table), ``is_retracted`` and
        ``excluded`` (true for papers that are to carry no label). A missing value is unknown, in ``is_retracted`` and
        ``excluded`` false. Other columns are ignored.
    citations : path
        ``citing`` and ``cited``, ids of papers, one row per citation.
    skip_bad : bool
        Leave out and count rows that are refused otherwise.

    Raises `BadInput` and `ValueError` as `graph_of_files` does, and for a year outside 1800-2100, a column that is
    missing, and a number or truth value that is none. The message names the row where one is to blame.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "p.csv").write_text("id,year,title,abstract\\na,1990,On a,We see a.\\nb,1992,On b,\\n")
    >>> _ = (folder / "c.csv").write_text("citing,cited\\nb,a\\n")
    >>> corpus = read_corpus(folder / "p.csv", folder / "c.csv")
    >>> corpus.works.ids(np.array([1, 0])), corpus.gaps
    (['b', 'a'], ['papers without abstract carry no label: 1 of 2, the first is row 2 below the header (id b)'])
    """
    read = edges_of_files(papers, citations, skip_bad=skip_bad, years=(FIRST_YEAR, LAST_YEAR))
    require_columns(str(papers), read.papers.column_names, ("title", "abstract"))
    table, n = read.papers, read.ids.size

    def texts(name: str) -> list[str]:
        if name not in table.column_names:
            return [""] * n
        column = table[name]
        unknown = pa.types.is_integer(column.type) and name == "venue"  # -1, as in `scisci-gym labels`
        values = (text(value) for value in column.cast(pa.string()).to_pylist())
        return ["" if unknown and value == "-1" else value for value in values]

    by_name = {name: texts(name) for name in ("title", "abstract", "venue", "field", "type", "language")}
    venues = pa.array([venue or None for venue in by_name["venue"]], pa.string()).dictionary_encode()
    excluded = frozenset(np.flatnonzero(_truths(read, "excluded", papers)).tolist())
    columns = {
        **by_name,
        "work_id": np.arange(n),
        "doi": [normalised_doi(doi) for doi in texts("doi")],
        "publication_year": read.years,
        # A column of times is a column of days with more behind them.
        "publication_date": [day[:10] for day in texts("publication_date")],
        "venue_id": venues.indices.fill_null(-1),
        "is_paratext": np.zeros(n, bool),
        "is_retracted": _truths(read, "is_retracted", papers),
        "authors_count": _counts(read, "authors_count", papers, np.zeros(n, np.int64)),
        "cited_by_count": _counts(read, "cited_by_count", papers, _cited_by(read)),
        "referenced_works": _references(read),
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in WORKS_SCHEMA]
    works = WorksTable.of_table(pa.Table.from_arrays(arrays, schema=WORKS_SCHEMA), read.ids.astype(str))
    gaps = [gap for name in REPORTED if name in table.column_names and (gap := _gap(read, name, by_name[name]))]
    return OwnCorpus(works, read.skipped_papers, read.skipped_citations, excluded, gaps)


def _references(read: EdgesOfFiles) -> pa.ListArray:
    """The papers that each paper cites, as they stand in the file."""
    lengths = np.bincount(read.citing, minlength=read.ids.size)
    cited = read.cited[np.argsort(read.citing, kind="stable")].astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), pa.array(cited))


def _cited_by(read: EdgesOfFiles) -> np.ndarray:
    """How many papers of the table cite each paper."""
    key = np.unique(read.citing.astype(np.int64) * read.ids.size + read.cited)
    citing, cited = np.divmod(key, max(read.ids.size, 1))
    return np.bincount(cited[citing != cited], minlength=read.ids.size)


def _gap(read: EdgesOfFiles, name: str, values: list[str]) -> str:
    missing = [place for place, value in enumerate(values) if not value]
    if not missing:
        return ""
    follows, first = REPORTED[name], _row(read, missing[0])
    return f"papers without {name} {follows}: {len(missing):,} of {len(values):,}, the first is {first}"


def _row(read: EdgesOfFiles, place: int) -> str:
    return f"row {read.rows[place] + 1} below the header (id {read.ids[place]})"


def _counts(read: EdgesOfFiles, name: str, path: str | Path, unknown: np.ndarray) -> np.ndarray:
    """A column of whole numbers from 0, int64 (N,); those of `unknown` where a value or the column is missing."""
    import pandas as pd

    if name not in read.papers.column_names:
        return unknown
    given: Any = read.papers[name].to_pandas()
    numbers: Any = pd.to_numeric(given, errors="coerce")
    wrong = given.notna() & ~((numbers >= 0) & (numbers % 1 == 0) & (numbers < 2**31))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise BadInput(
            f"{path}, {_row(read, first)}: {name} is {given[first]!r}, not a whole number from 0; correct it"
        )
    return numbers.fillna(pd.Series(unknown)).to_numpy(np.int64)


def _truths(read: EdgesOfFiles, name: str, path: str | Path) -> np.ndarray:
    """A column of truth values, bool (N,); false where a value or the column is missing."""
    if name not in read.papers.column_names:
        return np.zeros(read.ids.size, bool)
    try:
        return read.papers[name].cast(pa.bool_()).fill_null(False).to_numpy()
    except pa.ArrowInvalid as error:
        raise BadInput(f"column {name!r} of {path}: {error}; write true or false, or 1 or 0") from error
