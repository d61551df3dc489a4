"""Works out of a parquet file in OpenAlex shape: the snapshot's second format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import BadInput
from .record import DAMAGE, WORKS_SCHEMA, UnusableWork, work_row

COLUMNS = (
    "id", "doi", "title", "display_name", "publication_year", "publication_date", "updated_date", "language", "type",
    "is_retracted", "is_paratext", "is_xpac", "primary_location", "primary_topic", "authorships", "cited_by_count",
    "referenced_works", "abstract_inverted_index",
)  # fmt: skip
# Nested values come as parquet structs, lists and maps, or as JSON text.
NESTED = ("primary_location", "primary_topic", "authorships", "referenced_works", "abstract_inverted_index")


def parquet_batches(path: Path, dropped: Counter[str], skip_bad: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches of the works table with the share of the file's bytes read so far; see `snapshot.read_part`.

    Raises
    ------
    BadInput
        A file that is not parquet, or a record that is damaged, unless `skip_bad`.
    """
    try:
        source = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        if not skip_bad:
            raise BadInput(f"{path} cannot be read as parquet ({error}); fetch it again, or pass --skip-bad") from error
        dropped["damaged_file"] += 1
        return
    size, total, row = path.stat().st_size, max(1, source.metadata.num_rows), 0
    names = [name for name in COLUMNS if name in source.schema_arrow.names]
    for batch in source.iter_batches(batch_size=4096, columns=names):
        rows = []
        for work in batch.to_pylist():
            row += 1
            try:
                rows.append(work_row({name: _plain(name, value) for name, value in work.items()}))
            except UnusableWork as error:
                if error.reason in DAMAGE and not skip_bad:
                    raise BadInput(f"{error} ({path} row {row}); fix it or pass --skip-bad") from error
                dropped[error.reason] += 1
        yield pa.RecordBatch.from_pylist(rows, WORKS_SCHEMA), size * row // total


def _plain(name: str, value: Any) -> Any:
    if value is None or name not in NESTED:
        return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    if name == "abstract_inverted_index" and isinstance(value, list):
        return dict(value)
    return value
