"""An OpenAlex works snapshot on disk: its parts, its manifest, and the works in a part, every record accounted for."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ..errors import BadInput
from ..progress import reading_bar
from .decode import BadRecord, decode_block
from .fast_gzip import DAMAGED_ARCHIVE, gzip_blocks
from .merged_ids import retired_ids
from .parquet_works import parquet_batches
from .record import WORKS_SCHEMA
from .works_table import WorksTable

BLOCK_BYTES = 1 << 20
NAMES = ("*.gz", "*.jsonl", "*.json", "*.parquet")


@dataclass(frozen=True)
class Part:
    """One file of a snapshot: its path below the works folder, such as ``updated_date=2026-01-31/part_0003.gz``, is its
    name, its size is in bytes, and `records` is how many it has by the manifest, if there is one."""

    path: Path
    name: str
    size: int
    records: int | None = None


def works_folder(folder: Path) -> Path:
    """Folder of the works inside a snapshot, given it or one above it (``data``, ``data/parquet``, ...), absolute.

    A snapshot may hold the same works twice, as JSON lines and as parquet; then parquet is taken, which is read faster.
    Raises `BadInput` if the folder is missing or is a file.
    """
    if not folder.exists():
        raise BadInput(f"no folder {folder}; give the folder of an OpenAlex works snapshot")
    if not folder.is_dir():
        raise BadInput(f"{folder} is a file; give the folder that holds it")
    # The name of the works' folder says which entries of a manifest are theirs: "." has none.
    folder = Path(os.path.abspath(folder))
    inside = ("works", "parquet/works", "data/parquet/works", "jsonl/works", "data/works", "data/jsonl/works")
    return next((folder / below for below in inside if (folder / below).is_dir()), folder)


def parts_of(folder: Path, *, skip_bad: bool = False, dropped: Counter[str] | None = None) -> list[Part]:
    """Parts of a snapshot, in a fixed order, oldest ``updated_date`` first, checked against the manifest if it has one.

    Parameters
    ----------
    folder : Path
        As in `works_folder`.
    skip_bad : bool
        Count parts that the manifest lists but that are not there (``missing_file``) instead of stopping.
    dropped : Counter, optional
        Where they are counted.

    Raises
    ------
    BadInput
        No folder, no works in it, a part missing, or a part of another size than the manifest says.
    """
    folder = works_folder(folder)
    paths = {path for name in NAMES for path in folder.rglob(name) if path.is_file() and not _is_beside_works(path)}
    if not paths:
        raise BadInput(f"no works in {folder}: looked for {', '.join(NAMES)} below it")
    listed = _manifest(folder)
    parts = []
    for path in sorted(paths):
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        length, records = listed.pop(name, (None, None))
        if length is not None and length != size and not skip_bad:
            raise BadInput(
                f"{path} has {size:,} bytes, its manifest says {length:,}; fetch it again, or pass --skip-bad to read "
                "what is there"
            )
        parts.append(Part(path, name, size, records))
    if listed and not skip_bad:
        raise BadInput(
            f"{len(listed)} of the parts in the manifest of {folder} are missing, the first is {min(listed)}; fetch "
            "them, or pass --skip-bad to go on without"
        )
    if listed and dropped is not None:
        dropped["missing_file"] += len(listed)
    return parts


def _is_beside_works(path: Path) -> bool:
    """Whether a file among the parts is none: the manifest, or the list of deleted works (``deleted_ids.csv.gz``)."""
    return path.name == "manifest.json" or path.name.endswith(".csv.gz")


def read_part(
    part: Part, dropped: Counter[str], *, skip_bad: bool = False, advance: Callable[[int, int], object] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the works of a part, a batch of about a megabyte of JSON at a time.

    Parameters
    ----------
    part : Part
    dropped : Counter
        Counts records that are not in the batches, by reason.
    skip_bad : bool
        Count damage instead of stopping.
    advance : callable, optional
        Called with (bytes of the file, works) read since the last call.

    Raises
    ------
    BadInput
        Damage, or fewer or more records than the manifest says, unless `skip_bad`.
    """
    advance = advance or (lambda read, works: None)
    if not part.size and part.records != 0:
        if not skip_bad:
            raise BadInput(f"{part.path} is empty (0 bytes); fetch it again, or pass --skip-bad to go on without")
        dropped["damaged_file"] += 1
        return
    before, rows, done = dropped.total(), 0, 0
    batches = parquet_batches if part.path.suffix == ".parquet" else _json_batches
    for batch, position in batches(part.path, dropped, skip_bad):
        rows += len(batch)
        advance(position - done, len(batch))
        done = position
        yield batch
    advance(part.size - done, 0)
    records = rows + dropped.total() - before
    if part.records is not None and records != part.records:
        if not skip_bad:
            raise BadInput(
                f"{part.path} holds {records:,} records, its manifest says {part.records:,}; fetch it again, or pass "
                "--skip-bad to keep what is there"
            )
        dropped["missing_record" if records < part.records else "unlisted_record"] += abs(part.records - records)


def read_works(folder: Path, *, skip_bad: bool = False, progress: bool = True) -> tuple[pa.Table, Counter[str]]:
    """Read every work of a snapshot into memory; for one that is larger than that see `shards.convert`.

    Parameters
    ----------
    folder : Path
        ``works/`` of a snapshot, or a folder above it.
    skip_bad : bool
        What to do with damage (a truncated gzip, a line that is not JSON, a work without id): stop with a message
        that names file and line, or drop the record and count it.
    progress : bool
        Whether to draw a progress bar over the compressed bytes.

    Returns
    -------
    works : pyarrow.Table with `WORKS_SCHEMA`, one row per work id: the last of those with the same id
    dropped : Counter
        Reason -> number of records that are not in the table. ``len(works) + dropped.total()`` is the number read.
    """
    dropped: Counter[str] = Counter()
    parts = parts_of(folder, skip_bad=skip_bad, dropped=dropped)
    batches: list[pa.RecordBatch] = []
    with reading_bar(sum(part.size for part in parts), progress) as advance:
        for part in parts:
            batches += read_part(part, dropped, skip_bad=skip_bad, advance=advance)
    works = WorksTable.of_table(pa.Table.from_batches(batches, WORKS_SCHEMA))
    return current_works(works, folder, dropped).to_table(), +dropped


def current_works(works: WorksTable, folder: Path, dropped: Counter[str]) -> WorksTable:
    """The newest record of each work of a snapshot, without works that OpenAlex has merged away or deleted.

    Raises `BadInput` if no work is left.
    """
    works = works.without_repeats(dropped).without_retired(retired_ids(works_folder(folder)), dropped)
    if not works.num_rows:
        raise BadInput(f"no usable work in {folder}: {dict(+dropped) or 'the files are empty'}")
    return works


def _json_batches(path: Path, dropped: Counter[str], skip_bad: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches, with the position in the file after each. A damaged archive ends the part and is counted or raised."""
    done, rest = 0, b""

    def decoded(lines: bytes) -> pa.RecordBatch:
        try:
            return decode_block(lines, dropped, skip_bad=skip_bad)
        except BadRecord as error:
            # Lines are only counted for the message: counting them all along costs four per cent.
            number = 1 + _lines_before(path, done) + error.index
            raise BadInput(f"{error} ({path} line {number}); fix it or pass --skip-bad") from error

    with path.open("rb") as raw:
        try:
            for block in _blocks(path, raw):
                block = rest + block
                cut = block.rfind(b"\n") + 1
                rest = block[cut:]
                if cut:
                    yield decoded(block[:cut]), raw.tell()
                    done += cut
        except DAMAGED_ARCHIVE as error:
            if not skip_bad:
                raise BadInput(
                    f"{path} is damaged after line {_lines_before(path, done)} ({error}); fetch it again, or pass "
                    "--skip-bad to keep the lines before the damage"
                ) from error
            dropped["damaged_file"] += 1
            return
        if rest:
            yield decoded(rest), raw.tell()


def _lines_before(path: Path, position: int) -> int:
    lines = 0
    with path.open("rb") as raw:
        blocks = _blocks(path, raw)
        while position > 0:
            block = next(blocks)
            lines += block[:position].count(b"\n")
            position -= len(block)
    return lines


def _blocks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    return gzip_blocks(stream, BLOCK_BYTES) if path.suffix == ".gz" else iter(lambda: stream.read(BLOCK_BYTES), b"")


def _manifest(folder: Path) -> dict[str, tuple[int | None, int | None]]:
    """Part name -> (bytes, records) out of ``manifest`` in the works folder, or ``manifest.json`` in it or above it."""
    for path in (folder / "manifest", folder / "manifest.json", folder.parent / "manifest.json"):
        if path.is_file():
            try:
                listed = dict(_entries(json.loads(path.read_bytes()), folder.name))
            except ValueError as error:
                raise BadInput(f"{path} is not JSON ({error}); fetch it again or remove it") from error
            for name, numbers in listed.items():
                if any(number is not None and type(number) is not int for number in numbers):
                    raise BadInput(f"{path} gives {name} {numbers} bytes and records; fetch it again or remove it")
            return listed
    return {}


def _entries(node: Any, entity: str) -> Iterator[tuple[str, tuple[int | None, int | None]]]:
    """Entries of a Redshift-style manifest, wherever they stand in it; those of other entities are left out."""
    if isinstance(node, dict) and isinstance(node.get("url"), str):
        url, meta = node["url"], node["meta"] if isinstance(node.get("meta"), dict) else node
        name = url.split(f"/{entity}/", 1)[1] if f"/{entity}/" in url else url
        if "://" not in name:
            yield name, (meta.get("content_length"), meta.get("record_count"))
    elif isinstance(node, (dict, list)):
        for below in node.values() if isinstance(node, dict) else node:
            yield from _entries(below, entity)
