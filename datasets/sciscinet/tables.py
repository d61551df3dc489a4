"""Parquet tables of SciSciNet: which files there are, their columns, each with a type that is read or refused, and what
belongs to the papers in other tables, joined by `paperid`: titles and abstracts, and fields."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import SliceOptions, StrptimeOptions, call_function

from ..errors import BadInput
from ..labels.published import is_first
from ..openalex.record import text
from ..openalex.string_columns import id_numbers
from ..positions import positions_of
from ..progress import reading_bar

Batches = Iterator[tuple[np.ndarray, pa.RecordBatch]]
"""Batches of some columns, each with the rows of the papers, int64 (M,), that its rows belong to."""
BATCH_ROWS = 1 << 14
NO_DAY = np.iinfo(np.int32).min
PAPERS, TEXTS, FIELDS, FIELD_NAMES = (
    f"sciscinet_{name}.parquet" for name in ("papers", "papertitleabstract", "paperfields", "fields")
)
"""Names under which SciSciNet-v2 publishes the tables."""


class Tables(NamedTuple):
    """The files of a build: papers with their scores, and, where these are apart, titles and abstracts, which fields a
    paper belongs to, and the names of the fields."""

    papers: Path
    texts: Path | None = None
    fields: Path | None = None
    field_names: Path | None = None

    @classmethod
    def of(cls, file: Path, texts: Path | None, fields: Path | None, field_names: Path | None) -> Self:
        """The files given; of a folder, the tables that lie in it under their published names. One that is given
        counts more."""
        if not file.is_dir():
            return cls(file, texts, fields, field_names)
        if not (file / PAPERS).is_file():
            raise BadInput(f"no {PAPERS} in {file}; give the folder with the tables of SciSciNet-v2, or a parquet file")
        found = {name: path for name in (TEXTS, FIELDS, FIELD_NAMES) if (path := file / name).is_file()}
        given = texts or found.get(TEXTS), fields or found.get(FIELDS), field_names or found.get(FIELD_NAMES)
        return cls(file / PAPERS, *given)


def _is_text(kind: pa.DataType) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(value) or pa.types.is_large_string(value)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or _is_text(kind)


_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "paper": (_is_number, "ids of works, such as W2100837269, or their numbers"),
    "number": (_is_number, "numbers"),
    "flag": (lambda kind: pa.types.is_boolean(kind) or pa.types.is_integer(kind), "true or false"),
    "day": (
        lambda kind: pa.types.is_date(kind) or pa.types.is_timestamp(kind) or _is_text(kind),
        "dates, or texts such as 1999-12-31",
    ),
    "text": (_is_text, "texts"),
    "key": (lambda kind: _is_text(kind) or pa.types.is_integer(kind), "ids of fields"),
    "abstract": (lambda kind: _is_text(kind) or pa.types.is_map(kind) or pa.types.is_struct(kind), "inverted indexes"),
}
COLUMNS = {
    "paperid": "paper",
    "fieldid": "key",
    **dict.fromkeys(("doi", "title", "language", "doctype", "display_name"), "text"),
    "is_retracted": "flag",
    "date": "day",
    "abstract_inverted_index": "abstract",
}
"""What the columns that are read hold. All others hold numbers."""


class Rows:
    """Rows of a parquet file in batches; a column that it does not have is read as one of nulls.

    Raises `BadInput` for a file that is missing or damaged, for a required column that is missing (with `hint`, if that
    is one of those), and for a column of a type that cannot be read.
    """

    def __init__(self, file: Path, required: Sequence[str], hint: str = ""):
        if not file.is_file():
            raise BadInput(f"no file {file}; give a parquet file of SciSciNet")
        self.file = file
        try:
            self._source = pq.ParquetFile(file, buffer_size=1 << 20, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{file} cannot be read as parquet ({error}); fetch it again") from error
        self._bytes, self.rows = file.stat().st_size, self._source.metadata.num_rows
        self.names = frozenset(self._source.schema_arrow.names)
        missing = [name for name in required if name not in self.names]
        if missing:
            present = ", ".join(self._source.schema_arrow.names)
            raise BadInput(f"{file} has no column {', '.join(missing)}, only {present}{hint}")

    def batches(self, columns: Sequence[str], title: str = "", progress: bool = False) -> Iterator[pa.RecordBatch]:
        """`columns` of all rows, in order, with a progress bar over the bytes of the file."""
        done, names = 0, [name for name in columns if name in self.names]
        for name in names:
            self._check_type(name)
        with reading_bar(self._bytes, progress, title) as advance:
            try:
                for batch in self._source.iter_batches(BATCH_ROWS, columns=names):
                    nulls = pa.nulls(len(batch))
                    arrays = [self._decoded(name, batch[name]) if name in names else nulls for name in columns]
                    yield pa.record_batch(arrays, list(columns))
                    before, done = done, done + len(batch)
                    advance(self._bytes * done // self.rows - self._bytes * before // self.rows, len(batch))
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise BadInput(
                    f"{self.file} cannot be read after row {done:,} of {', '.join(names)} ({error}); fetch it again"
                ) from error

    def _check_type(self, name: str) -> None:
        kind = self._source.schema_arrow.field(name).type
        is_readable, words = _KINDS[COLUMNS.get(name, "number")]
        if not pa.types.is_null(kind) and not is_readable(kind):
            raise BadInput(f"{self.file}: column {name} has the type {kind}; it must hold {words}")

    def _decoded(self, name: str, column: pa.Array) -> pa.Array:
        """A column of texts as plain strings, or as numbers where it must hold numbers; any other as it is."""
        if not _is_text(column.type):
            return column
        column = column.cast(pa.string())
        column.validate(full=True)
        if COLUMNS.get(name, "number") != "number":
            return column
        try:
            return column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise BadInput(f"{self.file}: column {name} must hold numbers ({error})") from error


def paper_numbers(column: pa.Array) -> np.ndarray:
    """Numbers of papers given as 2100837269, "2100837269" or "W2100837269", int64 (N,); -1 for anything else."""
    if not pa.types.is_string(column.type):
        return numbers(column, -1, 0, 10**18).astype(np.int64)
    found = id_numbers(column)
    for row in np.flatnonzero((found < 0) & column.is_valid().to_numpy(False)).tolist():
        digits = column[row].as_py().rsplit("/", 1)[-1].lstrip("Ww")
        found[row] = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 18 else -1
    return found


def numbers(column: pa.Array, missing: float, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Numbers, float64 or int64 (N,); `missing` for a null, NaN, or what is outside [low, high]."""
    if pa.types.is_null(column.type):
        return np.full(len(column), missing)
    if pa.types.is_signed_integer(column.type):
        found = call_function("coalesce", [column.cast(pa.int64()), pa.scalar(-(2**63), pa.int64())]).to_numpy()
        missing_here = column.is_null().to_numpy(False)
    else:
        found = column.cast(pa.float64(), safe=False).to_numpy(False).astype(float)
        missing_here = np.isnan(found)
    return np.where(missing_here | (found < low) | (found > high), missing, found)


def counts(column: pa.Array) -> np.ndarray:
    """Counts, int32 (N,); 0 for a null and for what is no count."""
    return numbers(column, 0, 0, np.iinfo(np.int32).max).astype(np.int32)


def flags(column: pa.Array) -> np.ndarray:
    """Truth values, bool (N,); null is false."""
    return call_function("coalesce", [column.cast(pa.bool_()), pa.scalar(False)]).to_numpy(False)


def days(column: pa.Array) -> np.ndarray:
    """Days since 1970-01-01, int32 (N,); `NO_DAY` where no date such as 1999-12-31, perhaps with a time, is given."""
    if pa.types.is_string(column.type):
        day = call_function("utf8_slice_codeunits", [column], SliceOptions(0, 10))
        column = call_function("strptime", [day], StrptimeOptions("%Y-%m-%d", "s", error_is_null=True))
    column = column.cast(pa.date32()) if not pa.types.is_date32(column.type) else column
    return call_function("coalesce", [column.cast(pa.int32()), pa.scalar(NO_DAY, pa.int32())]).to_numpy()


class Texts:
    """Columns of the papers' own table or, with the numbers of the `papers`, of a table in any order.

    There, only rows of papers count, and of several rows of one paper the first.
    """

    def __init__(self, source: Rows, papers: np.ndarray | None = None):
        self.source, self._papers = source, papers
        self._order = None if papers is None else np.argsort(papers, kind="stable")

    def batches(self, columns: Sequence[str], title: str = "", progress: bool = False) -> Batches:
        """`columns` of the rows that belong to a paper."""
        if self._papers is None:
            first = 0
            for batch in self.source.batches(columns, title, progress):
                yield np.arange(first, first + len(batch)), batch
                first += len(batch)
            return
        seen = np.zeros(self._papers.size, bool)
        for batch in self.source.batches(["paperid", *columns], title, progress):
            rows = positions_of(paper_numbers(batch["paperid"]), self._papers, self._order)
            new = np.flatnonzero(is_first(rows) & (rows >= 0) & ~seen[rows])
            seen[rows[new]] = True
            yield rows[new], batch.take(pa.array(new)).select(list(columns))


def values_at(texts: Texts, column: str, wanted: np.ndarray, function: Callable[[Any], str]) -> np.ndarray:
    """`function` of a column at the ascending rows `wanted` of the papers, objects (M,); "" where there is no value."""
    values = np.full(wanted.size, "", object)
    for rows, batch in texts.batches([column]):
        places = np.searchsorted(wanted, rows)
        there = np.flatnonzero(np.append(wanted, -1)[places] == rows)
        values[places[there]] = [function(value) for value in batch[column].take(pa.array(there)).to_pylist()]
    return values


def fields_of(papers: np.ndarray, links: Path | None, names: Path | None, level: int) -> list[str]:
    """Field of each paper at a level: the one with the highest score, of equals the first by name; "" for none.

    `links` has a row for each paper and field: ``paperid`` and either ``display_name`` and ``level`` of the field or,
    with these in the table `names`, ``fieldid``; where it has no ``score_openalex``, all scores are equal. Raises
    `BadInput` if a table lacks a column, or no field has the level.
    """
    if links is None:
        return [""] * papers.size
    key, kinds = "display_name", None
    if "display_name" not in Rows(links, ("paperid",)).names:
        if names is None:
            raise BadInput(
                f"{links} has no column display_name; SciSciNet-v2 names the fields in {FIELD_NAMES}: give that with "
                "--field-names"
            )
        key, kinds = "fieldid", _names_of_level(names, level)
    source = Rows(links, ("paperid", key, *(("level",) if kinds is None else ())))
    order = np.argsort(papers, kind="stable")
    best, best_score = np.full(papers.size, -1, np.int64), np.full(papers.size, -np.inf)
    found: list[str] = []
    for batch in source.batches(("paperid", key, "level", "score_openalex")):
        if kinds is None:
            batch = batch.filter(pa.array(numbers(batch["level"], -1) == level))
        values = batch[key].dictionary_encode()
        given = [
            (text(value) if kinds is None else kinds.get(_key(value), "")) for value in values.dictionary.to_pylist()
        ]
        found += sorted(set(given) - {"", *found})
        codes = np.array([found.index(name) if name else -1 for name in given] + [-1])
        field = codes[call_function("coalesce", [values.indices, pa.scalar(-1, values.indices.type)]).to_numpy()]
        place = positions_of(paper_numbers(batch["paperid"]), papers, order)
        linked = (place >= 0) & (field >= 0)
        rank = np.argsort(np.argsort(np.array(found))) if found else np.empty(0, np.int64)
        _keep_best(place[linked], field[linked], numbers(batch["score_openalex"], 0.0)[linked], rank, best, best_score)
    if not found:
        raise BadInput(f"{links} has no field of level {level}; choose another --field-level")
    return [found[field] if field >= 0 else "" for field in best.tolist()]


def _keep_best(
    papers: np.ndarray, field: np.ndarray, score: np.ndarray, rank: np.ndarray, best: np.ndarray, best_score: np.ndarray
) -> None:
    """Enter the best field of each paper among some links, where it beats the best so far; `rank` is that of names."""
    order = np.lexsort((rank[field], -score, papers))
    first = order[np.unique(papers[order], return_index=True)[1]]
    papers, field, score = papers[first], field[first], score[first]
    has_earlier_name = rank[field] < np.where(best[papers] < 0, rank.size, rank[best[papers]])
    better = (score > best_score[papers]) | ((score == best_score[papers]) & has_earlier_name)
    best[papers[better]], best_score[papers[better]] = field[better], score[better]


def _names_of_level(names: Path, level: int) -> dict[str, str]:
    """Name of every field of a level, by its id."""
    fields = {}
    for batch in Rows(names, ("fieldid", "display_name", "level")).batches(("fieldid", "display_name", "level")):
        batch = batch.filter(pa.array(numbers(batch["level"], -1) == level))
        given = zip(batch["fieldid"].to_pylist(), batch["display_name"].to_pylist(), strict=True)
        fields |= {_key(field): text(name) for field, name in given}
    return fields


def _key(field: Any) -> str:
    """Id of a field without an address before it: ``"https://openalex.org/C41008148"`` -> ``"C41008148"``."""
    return str(field).rsplit("/", 1)[-1]
