"""Works tables on disk, as parquet shards: one shard for each part of a snapshot, written by several processes, and
written again only for parts that have changed."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..atomic_files import aside, remove_unfinished
from ..errors import BadInput
from ..progress import reading_bar
from ..ray_executor import RayExecutor
from .mapped_rows import grouped
from .record import WORKS_SCHEMA
from .snapshot import Part, current_works, parts_of, read_part
from .works_table import WorksTable

WRITTEN_FROM = "scisci_gym.written_from"
"""Key of the parquet metadata that marks a shard of a works table: JSON of what it was made from."""
FORMAT = 2
TAIL_BYTES = 1 << 16
# Below this a pool of processes costs more than it saves: each takes about two seconds to start.
WORTH_A_POOL = 256 << 20
_DICTIONARY = ["field", "venue", "type", "language"]


@dataclass(frozen=True)
class Shard:
    """A finished shard: the file and the records of its part that are not in it, by reason."""

    path: Path
    rows: int
    dropped: Counter[str]


def convert(
    parts: Sequence[Part],
    folder: Path,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
    progress: bool = True,
    ray_address: str | None = None,
) -> list[Shard]:
    """Write one shard per part below `folder`; parts whose shard is there already are not read again.

    Memory does not grow with the number of works: 304 to 551 MB were measured for a process
    (`python benchmarks/ingestion.py memory DIR`).

    Parameters
    ----------
    parts : sequence of Part
    folder : Path
    workers : int, optional
        Processes; default: one per core, or none but this one for less than 256 MB of parts. The shards do not depend
        on it.
    skip_bad : bool
        Count damage instead of stopping.
    progress : bool
        Draw a progress bar. With several processes it moves when a part is finished.
    ray_address : str, optional
        Address of a Ray cluster ("auto", "local", "ray://...") that spreads the parts over machines; both ends must
        see the same folders. Needs the extra ``scisci-gym[ray]``.

    Returns
    -------
    list of Shard, in the order of `parts`

    Raises
    ------
    BadInput
        See `snapshot.read_part`. Shards that were finished stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards = shard_paths(folder, len(parts))
    _prepare(folder)
    for stale in set(folder.glob("part-*.parquet")) - set(shards):
        stale.unlink()
    jobs = [(part, shard, skip_bad) for part, shard in zip(parts, shards, strict=True)]
    jobs = [job for job in jobs if not _is_done(*job)]
    total, to_read = sum(part.size for part in parts), sum(part.size for part, _, _ in jobs)
    if workers is None:
        workers = min(os.cpu_count() or 1, len(jobs)) if to_read >= WORTH_A_POOL else 1
    with reading_bar(total, progress) as advance:
        advance(total - to_read, 0)
        if ray_address is None and min(workers, len(jobs)) < 2:
            for part, shard, _ in jobs:
                write_shard(part, shard, skip_bad, advance)
        else:
            for part, rows in _spread(jobs, _executor(workers, ray_address)):
                advance(part.size, rows)
    return [_load(shard) for shard in shards]


def shard_paths(folder: Path, parts: int) -> list[Path]:
    """Where the shards of a number of parts lie, in order."""
    return [folder / f"part-{index:05d}.parquet" for index in range(parts)]


def take_over(parts: Sequence[Part], earlier: Path, folder: Path, *, skip_bad: bool = False) -> int:
    """Give `folder` the shards that `earlier` has of `parts`, so that `convert` does not read these parts again.

    Both folders are of `convert`, each for the parts of one snapshot. A part has not changed if name, size, records in
    the manifest and last bytes are the same: these are the checksum of a gzip file and the index of a parquet file.
    Shards are linked, and copied where the file system has no links. Returns the number of parts that have not changed.
    """
    _prepare(folder)
    written = {(written_from(shard) or {}).get("part"): shard for shard in _shards(earlier)}
    taken = 0
    for part, shard in zip(parts, shard_paths(folder, len(parts)), strict=True):
        if part.name not in written or not _is_done(part, written[part.name], skip_bad):
            continue
        taken += 1
        if not _is_done(part, shard, skip_bad):
            with aside(shard) as unfinished:
                try:
                    os.link(written[part.name], unfinished)
                except OSError:
                    shutil.copyfile(written[part.name], unfinished)
    return taken


def snapshot_works(
    snapshot: Path,
    folder: Path,
    *,
    workers: int | None = None,
    skip_bad: bool = False,
    progress: bool = True,
    ray_address: str | None = None,
) -> tuple[WorksTable, Counter[str], dict[str, Any]]:
    """The works of a snapshot, by way of shards in `folder`; see `convert`.

    Returns the works, how many records are not among them, by reason, and what the card says about the source.
    """
    dropped: Counter[str] = Counter()
    parts = parts_of(snapshot, skip_bad=skip_bad, dropped=dropped)
    shards = convert(parts, folder, workers=workers, skip_bad=skip_bad, progress=progress, ray_address=ray_address)
    for shard in shards:
        dropped.update(shard.dropped)
    works = current_works(WorksTable.of_shards([shard.path for shard in shards]), snapshot, dropped)
    promised = sum(part.records or 0 for part in parts)
    source = {
        "kind": "snapshot",
        "parts": len(parts),
        "records_in_manifest": promised or None,
        "retired_ids": 0 if works.retired is None else int(works.retired.ids.size),
        "sentence": f"Source: an OpenAlex works snapshot of {len(parts):,} parts"
        + (f", {promised:,} records by its manifest." if promised else ", without a manifest."),
    }
    return works, +dropped, source


def written_works(folder: Path) -> WorksTable:
    """The works in the shards of a folder, the last record of each. Raises `BadInput` if there is no shard."""
    shards = _shards(folder)
    if not shards:
        raise BadInput(f"{folder} holds no works; only `build snapshot` and `build openalex` keep them")
    return WorksTable.of_shards(shards).without_repeats(Counter())


def part_names(folder: Path) -> list[str]:
    """Names of the parts that the shards of a folder are from, in the order of `written_works`."""
    return [(written_from(shard) or {}).get("part", shard.name) for shard in _shards(folder)]


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def write_shard(
    part: Part, shard: Path, skip_bad: bool = False, advance: Callable[[int, int], object] | None = None
) -> int:
    """Convert one part and return the number of its works.

    The shard appears whole or not at all, and says in its own metadata what it was made from.
    """
    dropped: Counter[str] = Counter()
    rows = 0
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "use_dictionary": _DICTIONARY}
    with (
        aside(shard) as unfinished,
        pq.ParquetWriter(unfinished, WORKS_SCHEMA, write_statistics=False, **options) as writer,
    ):
        for group in grouped(read_part(part, dropped, skip_bad=skip_bad, advance=advance)):
            writer.write_table(group, row_group_size=group.num_rows)
            rows += group.num_rows
        report = {**_fingerprint(part, skip_bad), "dropped": dict(sorted(dropped.items()))}
        writer.add_key_value_metadata({WRITTEN_FROM: json.dumps(report)})
    return rows


def _fingerprint(part: Part, skip_bad: bool) -> dict[str, Any]:
    """What a shard was made from: another file under the same name is noticed."""
    with part.path.open("rb") as file:
        file.seek(max(0, part.size - TAIL_BYTES))
        tail = hashlib.sha256(file.read()).hexdigest()
    fingerprint = {"format": FORMAT, "part": part.name, "bytes": part.size, "modified_ns": part.path.stat().st_mtime_ns}
    return {**fingerprint, "tail": tail, "records_in_manifest": part.records, "skip_bad": skip_bad}


def _is_done(part: Part, shard: Path, skip_bad: bool) -> bool:
    made_from = written_from(shard)
    if made_from is None:
        return False
    differing = {key for key, value in _fingerprint(part, skip_bad).items() if made_from.get(key) != value}
    # The next snapshot is downloaded anew: where a manifest vouches for its parts, their dates do not count.
    is_summed = part.records is not None and part.path.suffix in (".gz", ".parquet")
    tolerated = {"modified_ns"} if is_summed else set()
    # What was read to its end without --skip-bad is the same with it.
    return differing <= (tolerated if made_from.get("skip_bad") else tolerated | {"skip_bad"})


def _load(shard: Path) -> Shard:
    report = written_from(shard) or {}
    return Shard(shard, pq.read_metadata(shard).num_rows, Counter(report["dropped"]))


def _executor(workers: int, ray_address: str | None) -> Executor:
    if ray_address is not None:
        return RayExecutor("--ray", ray_address)
    # Not fork: Arrow and numba have threads of their own.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def _spread(jobs: list[tuple[Part, Path, bool]], executor: Executor) -> Iterator[tuple[Part, int]]:
    """Write shards elsewhere: each part with the number of its works, as they finish."""
    with executor:
        # The largest first, so that no worker is left alone with one at the end.
        parts = {executor.submit(write_shard, *job): job[0] for job in sorted(jobs, key=lambda job: -job[0].size)}
        try:
            for future in as_completed(parts):
                yield parts[future], future.result()
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


def write_works(works: WorksTable, folder: Path) -> Path:
    """Write a works table that is in memory as one parquet shard below `folder`; its path.

    Raises `BadInput` if a file that no build has written stands there.
    """
    shard = folder / "part-00000.parquet"
    _prepare(folder)
    table = works.to_table()
    with aside(shard) as unfinished:
        pq.write_table(table.replace_schema_metadata({WRITTEN_FROM: "{}"}), unfinished, compression="zstd")
    return shard


def written_from(shard: Path) -> dict[str, Any] | None:
    """What a shard of a works table says it was made from; None for a file that is no such shard, or none at all."""
    try:
        made_from = json.loads((pq.read_metadata(shard).metadata or {})[WRITTEN_FROM.encode()])
    except (OSError, pa.ArrowInvalid, KeyError, ValueError):
        return None
    return made_from if isinstance(made_from, dict) else None


def _prepare(folder: Path) -> None:
    """Raise `BadInput` if a file in `folder` has the name of a shard but was not written as one; remove what a killed
    writer left."""
    remove_unfinished(folder)
    for shard in _shards(folder):
        if written_from(shard) is None:
            raise BadInput(
                f"{shard} was not written by a build, or by one of an earlier version, and works would take its "
                "place; move it away, or choose another --out"
            )
