"""Works in parquet, as OpenAlex publishes them since 2026 -> rows of the works table, read and computed by columns.

Only the leaves of nested columns that a row needs are read. A file whose columns have other types than the published
ones is read row by row, which gives the same rows, more slowly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.compute import SliceOptions, call_function

from ..errors import BadInput
from ..paper import FIRST_YEAR, LAST_YEAR
from .decode import BadRecord, decode_rows, known_abstracts
from .record import WORKS_SCHEMA, UnusableWork, checked_node
from .string_columns import few_values, id_numbers, plain_dois, plain_texts

# Some megabytes: buffers of tens of megabytes are handed back to the system and cleared again for every batch.
BATCH_ROWS = 1 << 12
_STRINGS = ("id", "doi", "title", "display_name", "language", "type", "abstract_inverted_index")
_NAMES = ("primary_location.source.id", "primary_location.source.display_name", "primary_topic.field.display_name")
_DATES = ("publication_date", "updated_date")
_NUMBERS = ("publication_year", "cited_by_count")
_BOOLEANS = ("is_retracted", "is_paratext", "is_xpac")
_LISTS = ("authorships", "referenced_works")
_NULLS = {
    **dict.fromkeys((*_STRINGS, *_NAMES, *_DATES), pa.string()),
    **dict.fromkeys(_NUMBERS, pa.int64()),
    **dict.fromkeys(_BOOLEANS, pa.bool_()),
    **dict.fromkeys(_LISTS, pa.list_(pa.string())),
}
"""Every column and leaf that is read, and the type of the nulls that stand for an absent one."""


def parquet_batches(path: Path, dropped: Counter[str], skip_bad: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of the works table, each with the share of the file's bytes that the rows so far make up.

    `dropped` counts records that are not in the batches, by reason. Raises `BadInput` for a damaged file or record, or
    counts it if `skip_bad` is true.
    """
    size, done = path.stat().st_size, 0
    try:
        # Pages carry checksums where the writer computed them.
        source = pq.ParquetFile(path, page_checksum_verification=True)
        total, leaves = max(1, source.metadata.num_rows), _leaves(source)
        for group in range(source.num_row_groups):
            # Parts are what cores share out among them, not the columns of one.
            for batch in source.iter_batches(BATCH_ROWS, row_groups=[group], columns=leaves, use_threads=False):
                try:
                    works = decode_columns(batch, dropped, skip_bad=skip_bad)
                except BadRecord as error:
                    row = done + error.index + 1
                    raise BadInput(f"{error} ({path} row {row}); fix it or pass --skip-bad") from error
                done += len(batch)
                yield works, size * done // total
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if not skip_bad:
            raise BadInput(
                f"{path} cannot be read as parquet after row {done:,} ({error}); fetch it again, or pass --skip-bad "
                "to keep the rows before the damage"
            ) from error
        dropped["damaged_file"] += 1


def decode_columns(batch: pa.RecordBatch, dropped: Counter[str], *, skip_bad: bool = False) -> pa.RecordBatch:
    """Rows of the works table for records of a parquet file; see `decode.decode_block`.

    Raises `pyarrow.ArrowInvalid` for texts that are not UTF-8.
    """
    batch.validate(full=True)
    columns = _published_columns(batch)
    if columns is None:
        return decode_rows(batch.to_pylist(), dropped, skip_bad=skip_bad)
    works, years, usable = _nodes(columns, dropped, skip_bad)
    if not usable.all():
        columns = {name: column.filter(pa.array(usable)) for name, column in columns.items()}
        works, years = works[usable], years[usable]
    cited = _integers(columns["cited_by_count"], 0)
    venue_id, venue, field = (columns[name] for name in _NAMES)
    rows = {
        "work_id": works,
        "doi": plain_dois(columns["doi"]),
        "title": _titles(columns),
        "abstract": known_abstracts(columns["abstract_inverted_index"]),
        "publication_year": years,
        "publication_date": plain_texts(columns["publication_date"]),
        "field": few_values(field),
        "venue_id": id_numbers(venue_id, "S"),
        "venue": plain_texts(venue),
        "type": few_values(columns["type"]),
        "language": few_values(columns["language"]),
        "is_paratext": _is_true(columns["is_paratext"])
        | _is_true(call_function("equal", [columns["type"], pa.scalar("paratext")])),
        "is_retracted": _is_true(columns["is_retracted"]),
        "authors_count": _integers(call_function("list_value_length", [columns["authorships"]]), 0),
        "cited_by_count": np.where((cited >= 0) & (cited < 2**62), cited, 0),
        "referenced_works": _references(columns["referenced_works"]),
    }
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, WORKS_SCHEMA.field(name).type)
        for name, column in rows.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=WORKS_SCHEMA)


def _leaves(source: pq.ParquetFile) -> list[str]:
    """Paths of the leaves to read; of `authorships`, whose length is all that counts, only the smallest."""
    leaves, authorships = [], []
    for index in range(len(source.schema)):
        leaf = source.schema.column(index)
        path = f"{leaf.path}."
        if path.startswith("authorships."):
            groups = map(source.metadata.row_group, range(source.num_row_groups))
            size = sum(group.column(index).total_compressed_size for group in groups)
            authorships.append((leaf.max_repetition_level, size, leaf.path))
        elif any(path.startswith(f"{name}.") or f"{name}.".startswith(path) for name in _NULLS):
            leaves.append(leaf.path)
    return leaves + [path for _, _, path in sorted(authorships)[:1]]


def _published_columns(batch: pa.RecordBatch) -> dict[str, pa.Array] | None:
    """Columns and leaves by path, absent ones as nulls; None if one has another type than the published ones."""
    table = pa.Table.from_batches([batch])
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = {name: pa.nulls(len(batch), kind) for name, kind in _NULLS.items()}
    for name in table.schema.names:
        column = table[name].chunk(0)  # `combine_chunks` would copy it.
        if pa.types.is_null(column.type) or not any(f"{path}.".startswith(f"{name}.") for path in _NULLS):
            continue
        if not _is_published(name, column.type):
            return None
        columns[name] = column.cast(pa.string()) if name in _DATES else column
    return columns


def _is_published(path: str, kind: pa.DataType) -> bool:
    if path in _NUMBERS:
        return pa.types.is_signed_integer(kind)
    if path == "authorships":
        return pa.types.is_list(kind)
    return kind == _NULLS.get(path) or (path in _DATES and pa.types.is_date32(kind))


def _nodes(
    columns: dict[str, pa.Array], dropped: Counter[str], skip_bad: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers and years of the records, and which of them `record.checked_node` takes; the others are counted."""
    works, years = id_numbers(columns["id"]), _integers(columns["publication_year"], FIRST_YEAR)
    updated = call_function("coalesce", [columns["updated_date"], pa.scalar("")])
    day = call_function("utf8_slice_codeunits", [updated], SliceOptions(0, 4))
    last_year = few_values(day, lambda year: str(int(year) + 1 if year.isdecimal() else LAST_YEAR))
    checks = (
        ("no_id", works < 0),
        ("xpac", _is_true(columns["is_xpac"])),
        ("no_year", columns["publication_year"].is_null().to_numpy(False)),
        ("bad_year", (years < FIRST_YEAR) | (years > LAST_YEAR)),
        ("future_year", years > last_year.cast(pa.int64()).to_numpy()),
    )
    usable = np.ones(works.size, bool)
    for reason, failed in checks:
        if reason == "no_id" and failed.any() and not skip_bad:
            index = int(np.argmax(failed))
            try:
                checked_node(columns["id"][index].as_py(), None, None, None)
            except UnusableWork as error:
                raise BadRecord(str(error), index) from error
        dropped[reason] += int((usable & failed).sum())
        usable &= ~failed
    return works, years, usable


def _titles(columns: dict[str, pa.Array]) -> pa.Array:
    titles = plain_texts(columns["title"])
    missing = call_function("equal", [titles, pa.scalar("")])
    return (
        call_function("if_else", [missing, plain_texts(columns["display_name"]), titles])
        if missing.true_count
        else titles
    )


def _references(lists: pa.Array) -> pa.Array:
    """Numbers of the works in lists of ids, without entries that are no work ids."""
    lengths, numbers = _integers(call_function("list_value_length", [lists]), 0), id_numbers(lists.flatten())
    found = numbers >= 0
    if not found.all():
        lengths = np.bincount(np.repeat(np.arange(lengths.size), lengths)[found], minlength=lengths.size)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(numbers[found]))


def _integers(column: pa.Array, missing: int) -> np.ndarray:
    return call_function("coalesce", [column.cast(pa.int64()), pa.scalar(missing, pa.int64())]).to_numpy()


def _is_true(column: pa.Array) -> np.ndarray:
    return call_function("coalesce", [column, pa.scalar(False)]).to_numpy(False)
