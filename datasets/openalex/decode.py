"""OpenAlex records, as JSON lines or rows of parquet -> rows of the works table, every record accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import orjson
import pyarrow as pa
from pyarrow.compute import SetLookupOptions, call_function

from ..errors import BadInput
from ..paper import FIRST_YEAR, LAST_YEAR
from .inverted_index import abstract_texts, reference_lists
from .record import (
    DAMAGE,
    LONGEST_NOTHING,
    NOTHING,
    WORKS_SCHEMA,
    UnusableWork,
    checked_node,
    normalised_doi,
    short_id,
    text,
    work_row,
)

_NULL = msgspec.Raw(b"null")
NESTED = frozenset({"primary_location", "primary_topic", "authorships", "referenced_works", "abstract_inverted_index"})
"""Fields of a work that are not a single text, number or truth value."""


class _Named(msgspec.Struct, gc=False):
    id: str | None = None
    display_name: str | None = None


class _Location(msgspec.Struct, gc=False):
    source: _Named | None = None


class _Topic(msgspec.Struct, gc=False):
    field: _Named | None = None


class _Work(msgspec.Struct, gc=False):
    """The fields that are read, with the types that they have in well-formed records.

    A record of another shape is read by `record.work_row`. Other fields are checked to be JSON and skipped.
    """

    id: str
    publication_year: int
    doi: str | None = None
    title: str | None = None
    display_name: str | None = None
    publication_date: str | None = None
    updated_date: str | None = None
    language: str | None = None
    type: str | None = None
    is_retracted: bool | None = None
    is_paratext: bool | None = None
    is_xpac: bool | None = None
    primary_location: _Location | None = None
    primary_topic: _Topic | None = None
    authorships: list[msgspec.Raw] | None = None
    cited_by_count: int | None = None
    referenced_works: msgspec.Raw = _NULL
    abstract_inverted_index: msgspec.Raw = _NULL


_DECODER = msgspec.json.Decoder(_Work)


class BadRecord(BadInput):
    """A damaged record. `index` is its position among the lines or rows that were passed, from 0."""

    def __init__(self, message: str, index: int):
        super().__init__(message)
        self.index = index


def decode_block(block: bytes, dropped: Counter[str], *, skip_bad: bool = False) -> pa.RecordBatch:
    """Rows of the works table for a block of whole JSON lines, in order.

    `dropped` counts the records that are not in the batch, by reason. Raises `BadRecord` at the first damaged record
    (see `record.DAMAGE`), or counts that one too if `skip_bad` is true.
    """
    try:
        return _batch(_DECODER.decode_lines(block), dropped)
    except (msgspec.DecodeError, UnicodeDecodeError, _Irregular):
        lines = block.split(b"\n")
        records = ((index, partial(orjson.loads, line)) for index, line in enumerate(lines) if line.strip())
        return _one_by_one(records, dropped, skip_bad)


def decode_rows(rows: Sequence[dict[str, Any]], dropped: Counter[str], *, skip_bad: bool = False) -> pa.RecordBatch:
    """The same for rows of a parquet file, whose nested values are Python objects, maps as lists, or JSON text."""
    return _one_by_one(((index, partial(_plain_work, row)) for index, row in enumerate(rows)), dropped, skip_bad)


class _Irregular(Exception):
    """A damaged record among well-formed ones: its line is only known when the block is read line by line."""


class _Once(dict):
    """Values of a function, computed once for each argument: columns with few distinct values are mapped by lookup."""

    def __init__(self, function: Callable[[Any], Any]):
        super().__init__()
        self.function = function

    def __missing__(self, key: Any) -> Any:
        value = self[key] = self.function(key)
        return value


def _batch(works: list[_Work], dropped: Counter[str]) -> pa.RecordBatch:
    reasons: Counter[str] = Counter()
    nodes = _plain_nodes(works)
    if nodes is None:
        works, nodes = _checked_nodes(works, reasons)
    # Columns, not rows: a comprehension per field costs a third of a function call per record.
    once = _Once(text)
    number = _Once(lambda identifier: -1 if (found := short_id(identifier, "S")) is None else found)
    source = [work.primary_location and work.primary_location.source for work in works]
    field = [work.primary_topic and work.primary_topic.field for work in works]
    columns = {
        "work_id": nodes[0],
        "doi": ["" if work.doi is None else normalised_doi(work.doi) for work in works],
        "title": [text(work.title) or text(work.display_name) for work in works],
        "abstract": known_abstracts([work.abstract_inverted_index for work in works]),
        "publication_year": nodes[1],
        "publication_date": [once[work.publication_date] for work in works],
        "field": [once[topic and topic.display_name] for topic in field],
        "venue_id": [number[venue and venue.id] for venue in source],
        "venue": [once[venue and venue.display_name] for venue in source],
        "type": [once[work.type] for work in works],
        "language": [once[work.language] for work in works],
        "is_paratext": [work.is_paratext is True or work.type == "paratext" for work in works],
        "is_retracted": [work.is_retracted is True for work in works],
        "authors_count": [0 if work.authorships is None else len(work.authorships) for work in works],
        "cited_by_count": [n if (n := work.cited_by_count) is not None and 0 <= n < 2**62 else 0 for work in works],
        "referenced_works": reference_lists([work.referenced_works for work in works]),
    }
    dropped.update(reasons)
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, WORKS_SCHEMA.field(name).type)
        for name, column in columns.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=WORKS_SCHEMA)


def known_abstracts(indexes: Any) -> pa.Array:
    """`abstract_texts`, with "" where `record.text` finds no text, as in "null"."""
    texts = abstract_texts(indexes)
    is_short = call_function("less_equal", [call_function("binary_length", [texts]), pa.scalar(LONGEST_NOTHING)])
    lower = call_function("utf8_lower", [call_function("if_else", [is_short, texts, pa.scalar("")])])
    nothing = call_function("is_in", [lower], SetLookupOptions(pa.array(sorted(NOTHING))))
    return call_function("if_else", [nothing, pa.scalar(""), texts]) if nothing.true_count else texts


def _plain_nodes(works: list[_Work]) -> tuple[pa.Array, np.ndarray] | None:
    """Ids and years of a block in which every record passes `checked_node`, all at once; None for any other block."""
    ids = reference_lists([orjson.dumps([work.id for work in works])]).flatten()
    try:
        years = np.array([work.publication_year for work in works], np.int64)
    except OverflowError:
        return None
    updated = _Once(lambda date: int(date[:4]) if date is not None and date[:4].isdecimal() else LAST_YEAR)
    limits = np.array([updated[work.updated_date] for work in works], np.int64) + 1
    plain = (
        len(ids) == len(works)
        and not any(work.is_xpac for work in works)
        and bool(((years >= FIRST_YEAR) & (years <= np.minimum(limits, LAST_YEAR))).all())
    )
    return (ids, years.astype(np.int32)) if plain else None


def _checked_nodes(works: list[_Work], reasons: Counter[str]) -> tuple[list[_Work], tuple[list[int], list[int]]]:
    kept, ids, years = [], [], []
    for work in works:
        try:
            work_id, year = checked_node(work.id, work.publication_year, work.updated_date, work.is_xpac)
        except UnusableWork as error:
            if error.reason in DAMAGE:
                raise _Irregular from error
            reasons[error.reason] += 1
            continue
        kept.append(work)
        ids.append(work_id)
        years.append(year)
    return kept, (ids, years)


def _one_by_one(
    records: Iterable[tuple[int, Callable[[], Any]]], dropped: Counter[str], skip_bad: bool
) -> pa.RecordBatch:
    """Rows by `work_row`, which reads records of every shape; a record is its index and a call that reads it."""
    rows = []
    for index, read in records:
        try:
            rows.append(work_row(read()))
            continue
        except orjson.JSONDecodeError as error:
            reason, message = "not_json", f"not JSON ({error})"
        except UnusableWork as error:
            reason, message = error.reason, str(error)
        if reason in DAMAGE and not skip_bad:
            raise BadRecord(message, index)
        dropped[reason] += 1
    return pa.RecordBatch.from_pylist(rows, WORKS_SCHEMA)


def _plain_work(row: dict[str, Any]) -> dict[str, Any]:
    work = {}
    for name, value in row.items():
        if name in NESTED and isinstance(value, str):
            try:
                value = orjson.loads(value)
            except orjson.JSONDecodeError:
                value = None
        elif name == "abstract_inverted_index" and isinstance(value, list):
            value = dict(value)
        elif name not in NESTED and value is not None and not isinstance(value, (str, int, float)):
            value = str(value)  # a date
        work[name] = value
    return work
