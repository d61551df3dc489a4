"""Parts of a snapshot -> parquet shards of the works table: one pass, several processes, restartable part by part."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..atomic_files import aside, remove_unfinished
from ..progress import reading_bar
from .record import WORKS_SCHEMA
from .snapshot import Part, read_part
from .works_table import WRITTEN_FROM, refuse_foreign_shards, written_from

FORMAT = 2
GROUP_BYTES = 32 << 20
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

    Memory is bounded by a row group per worker (about 100 MB), whatever the number of works.

    Parameters
    ----------
    parts : sequence of Part
    folder : Path
    workers : int, optional
        Processes; default: one per core, or none at all for less than 256 MB of parts. The shards do not depend on it.
    skip_bad : bool
        Count damage instead of stopping.
    progress : bool
        Whether to draw a progress bar.
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
    shards = [folder / f"part-{index:05d}.parquet" for index in range(len(parts))]
    remove_unfinished(folder)
    refuse_foreign_shards(folder)
    for stale in set(folder.glob("part-*.parquet")) - set(shards):
        stale.unlink()
    todo = [at for at, part in enumerate(parts) if not _is_done(part, shards[at], skip_bad)]
    if workers is None:
        worth_it = sum(parts[at].size for at in todo) >= WORTH_A_POOL
        workers = min(os.cpu_count() or 1, len(todo)) if worth_it else 1
    with reading_bar(sum(part.size for part in parts), progress) as advance:
        advance(sum(part.size for part in parts) - sum(parts[at].size for at in todo), 0)
        jobs = [(parts[at], shards[at], skip_bad) for at in todo]
        if ray_address is not None:
            _with_ray(jobs, ray_address, advance)
        elif workers > 1 and len(todo) > 1:
            _with_processes(jobs, workers, advance)
        else:
            for part, shard, _ in jobs:
                write_shard(part, shard, skip_bad, advance)
    return [_load(shard) for shard in shards]


def write_shard(
    part: Part, shard: Path, skip_bad: bool = False, advance: Callable[[int, int], object] | None = None
) -> None:
    """Convert one part. The shard appears whole or not at all, and says in its own metadata what it was made from."""
    dropped: Counter[str] = Counter()
    with (
        aside(shard) as unfinished,
        pq.ParquetWriter(
            unfinished,
            WORKS_SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=_DICTIONARY,  # pyright: ignore[reportArgumentType]
            write_statistics=False,
        ) as writer,
    ):
        for group in _groups(read_part(part, dropped, skip_bad=skip_bad, advance=advance)):
            writer.write_table(group, row_group_size=group.num_rows)
        report = {**_fingerprint(part, skip_bad), "dropped": dict(sorted(dropped.items()))}
        writer.add_key_value_metadata({WRITTEN_FROM: json.dumps(report)})


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _fingerprint(part: Part, skip_bad: bool) -> dict[str, Any]:
    """What a shard was made from: another file under the same name is noticed."""
    return {
        "format": FORMAT,
        "part": part.name,
        "bytes": part.size,
        "modified_ns": part.path.stat().st_mtime_ns,
        "records_in_manifest": part.records,
        "skip_bad": skip_bad,
    }


def _is_done(part: Part, shard: Path, skip_bad: bool) -> bool:
    made_from = written_from(shard) or {}
    return {key: made_from.get(key) for key in _fingerprint(part, skip_bad)} == _fingerprint(part, skip_bad)


def _load(shard: Path) -> Shard:
    report = written_from(shard) or {}
    return Shard(shard, pq.read_metadata(shard).num_rows, Counter(report["dropped"]))


def _with_processes(jobs: list[tuple[Part, Path, bool]], workers: int, advance: Callable[[int, int], object]) -> None:
    # Not fork: Arrow and numba have threads of their own.
    context = multiprocessing.get_context("spawn")
    counters = (context.Value("q", 0), context.Value("q", 0))
    seen = [0, 0]

    def show() -> None:
        now = [counter.value for counter in counters]
        advance(now[0] - seen[0], now[1] - seen[1])
        seen[:] = now

    with ProcessPoolExecutor(workers, context, _share_counters, (counters,)) as pool:
        # The largest first, so that no worker is left alone with one at the end.
        pending: set[Future] = {pool.submit(_counted, *job) for job in sorted(jobs, key=lambda job: -job[0].size)}
        try:
            while pending:
                finished, pending = wait(pending, timeout=0.2)
                show()
                for future in finished:
                    future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_counters: Any = None


def _share_counters(counters: Any) -> None:
    global _counters
    _counters = counters


def _counted(part: Part, shard: Path, skip_bad: bool) -> None:
    def advance(read: int, works: int) -> None:
        for counter, amount in zip(_counters, (read, works), strict=True):
            with counter.get_lock():
                counter.value += amount

    write_shard(part, shard, skip_bad, advance)


def _with_ray(jobs: list[tuple[Part, Path, bool]], address: str, advance: Callable[[int, int], object]) -> None:
    try:
        import ray
    except ImportError as error:
        raise ValueError("--ray needs Ray: pip install 'scisci-gym[ray]'") from error
    ray.init(None if address == "local" else address, ignore_reinit_error=True, log_to_driver=False)
    task = ray.remote(write_shard)
    pending = {task.remote(*job): job[0] for job in jobs}
    while pending:
        (ready,), _ = ray.wait(list(pending), num_returns=1)
        ray.get(ready)
        advance(pending.pop(ready).size, 0)
