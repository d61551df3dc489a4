"""Reading a folder in OpenAlex snapshot layout: gzip JSON lines -> works table, every record accounted for."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from .works import WORKS_SCHEMA, UnusableWork, work_row

BATCH_ROWS = 20_000


class BadInput(ValueError):
    """Input that needs a decision by the user. The message names the file, the line and the way on."""


def work_files(folder: Path) -> list[Path]:
    """The works files below a folder, in a fixed order: ``part_*`` / ``*.jsonl`` / ``*.json``, gzipped or plain.

    Raises
    ------
    BadInput
        If the folder is missing, is a file, or holds no such file.
    """
    if not folder.exists():
        raise BadInput(f"no folder {folder}; give the folder of an OpenAlex works snapshot")
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file; give the folder that holds it")
    names = ("*.gz", "*.jsonl", "*.json")
    files = sorted({path for name in names for path in folder.rglob(name) if path.is_file()})
    if not files:
        raise BadInput(f"no works in {folder}: looked for {', '.join(names)} below it")
    return files


def read_works(folder: Path, *, skip_bad: bool = False, progress: bool = True) -> tuple[pa.Table, Counter[str]]:
    """Read every work below `folder`.

    Parameters
    ----------
    folder : Path
        ``works/`` of a snapshot; the ``updated_date=*`` folders below it are walked in order.
    skip_bad : bool
        What to do with damage (a truncated gzip, a line that is not JSON, a work without id or year): stop with a
        message that names file and line, or drop the record and count it.
    progress : bool
        Whether to draw a progress bar over the compressed bytes.

    Returns
    -------
    works : pyarrow.Table with `WORKS_SCHEMA`, one row per work id, in order of first appearance
    dropped : Counter
        Reason -> number of records that are not in the table. ``len(works) + dropped.total()`` is the number read.

    Raises
    ------
    BadInput
    """
    files = work_files(folder)
    dropped: Counter[str] = Counter()
    batches: list[pa.RecordBatch] = []
    seen: set[int] = set()
    columns = (TextColumn("reading works"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not progress, transient=True) as bar:
        task = bar.add_task("", total=sum(path.stat().st_size for path in files))
        for path in files:
            rows = []
            for where, line in _lines(path, skip_bad, dropped):
                row = _row(where, line, skip_bad, dropped)
                if row is None:
                    continue
                if row["work_id"] in seen:
                    dropped["repeated_id"] += 1
                    continue
                seen.add(row["work_id"])
                rows.append(row)
                if len(rows) == BATCH_ROWS:
                    batches.append(pa.RecordBatch.from_pylist(rows, WORKS_SCHEMA))
                    rows = []
            batches.append(pa.RecordBatch.from_pylist(rows, WORKS_SCHEMA))
            bar.advance(task, path.stat().st_size)
    if not seen:
        raise BadInput(f"no usable work in {folder}: {dict(dropped) or 'the files are empty'}")
    return pa.Table.from_batches(batches, WORKS_SCHEMA), dropped


def _lines(path: Path, skip_bad: bool, dropped: Counter[str]) -> Iterator[tuple[str, bytes]]:
    """Non-empty lines with where they stand. A damaged archive ends the file, never silently."""
    number = 0
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
        while True:
            try:
                line = stream.readline()
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                if not skip_bad:
                    raise BadInput(
                        f"{path} is damaged after line {number} ({error}); fetch it again, or pass --skip-bad to "
                        "keep the lines before the damage"
                    ) from error
                dropped["damaged_file"] += 1
                return
            if not line:
                return
            number += 1
            if line.strip():
                yield f"{path} line {number}", line


def _row(where: str, line: bytes, skip_bad: bool, dropped: Counter[str]) -> dict | None:
    try:
        return work_row(orjson.loads(line))
    except orjson.JSONDecodeError as error:
        reason, detail = "not_json", f"not JSON ({error})"
    except UnusableWork as error:
        reason, detail = error.reason, str(error)
    if not skip_bad:
        raise BadInput(f"{detail} ({where}); fix it or pass --skip-bad")
    dropped[reason] += 1
    return None
