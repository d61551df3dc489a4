"""A table of labels as a file: parquet, csv or JSON lines, as its name says, and never over a file of another kind."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from ..atomic_files import aside
from ..errors import BadInput
from ..openalex.shards import WRITTEN_FROM, written_from

MARK = {"kind": "labels"}
FORMATS = ("", ".parquet", ".pq", ".csv", ".jsonl")


def require_label_file(path: Path) -> None:
    """Raise `BadInput` for a name of no known format, or where a file stands that `write_labels` did not write."""
    if path.suffix not in FORMATS:
        raise BadInput(
            f"--out {path} ends in {path.suffix}; labels are written as .parquet, .csv or .jsonl: choose another name"
        )
    if not path.exists():
        return
    if path.suffix in (".csv", ".jsonl") and path.is_file():
        with path.open("rb") as file:
            ours = b'"citations_in_window"' in file.readline(4096)
    else:
        ours = written_from(path) == MARK
    if not ours:
        raise BadInput(f"{path} exists and is no table of labels; choose another --out, or move it away")


def write_labels(table: pa.Table, path: Path) -> None:
    """Write what `label_table` returned. NaN is an empty field in csv and null in JSON lines.

    Raises
    ------
    BadInput
        See `require_label_file`.
    """
    require_label_file(path)
    with aside(path) as unfinished:
        if path.suffix == ".csv":
            with csv.CSVWriter(unfinished, table.schema) as writer:
                for batch in table.to_batches(100_000):
                    writer.write_batch(_nulls_for_nan(batch))
        elif path.suffix == ".jsonl":
            with unfinished.open("wb") as file:
                for batch in table.to_batches(10_000):
                    file.writelines(orjson.dumps(row) + b"\n" for row in batch.to_pylist())
        else:
            marked = {**(table.schema.metadata or {}), WRITTEN_FROM: json.dumps(MARK)}
            pq.write_table(table.replace_schema_metadata(marked), unfinished)


def _nulls_for_nan(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = (
        pa.array(column.to_numpy(), from_pandas=True) if pa.types.is_floating(column.type) else column
        for column in batch.columns
    )
    return pa.record_batch(list(columns), batch.schema)
