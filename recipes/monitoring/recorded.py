"""The files that every recipe writes about a run: record, heartbeat, experiment record and register entry."""

import asyncio
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...datasets.atomic_files import claimed, drop_torn_lines
from .experiment import write_experiment
from .heartbeat import EVERY, Heartbeat, Status
from .record import close_run_record, write_run_record
from .register import register_run

LOCK = ".run.lock"


@contextmanager
def recorded_run(
    recipe: str, cfg: Any, every: float = EVERY, engine: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """While the block trains, keep the files about the run up to date.

    These are, in the run's folder `cfg.log_path`, `run.json` (configuration, revision, data, status, times and
    resumptions), `heartbeat.json` (a sign of life every so many seconds) and `EXPERIMENT.md` (the record for people),
    and beside the folder `register.json` and `REGISTER.md` with the entries of all its neighbours.

    `cfg` is the resolved configuration. Raises `FolderInUse` if another process trains in the same folder.
    """
    folder = Path(cfg.log_path)
    refusal = f"another process is training in {folder} (see its heartbeat.json); stop it, or choose another log_path"
    with claimed(folder / LOCK, refusal):
        # The cookbook appends to these files; to half a line of a killed run it would append a line that is lost.
        for path in folder.glob("*.jsonl"):
            drop_torn_lines(path)
        write_run_record(folder, recipe, cfg, cfg.dataset, engine)
        heartbeat = Heartbeat(folder, every)
        heartbeat.start()
        describe_run(folder)
        try:
            with _terminated_as_interrupted():
                yield
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            _end(folder, heartbeat, "interrupted")
            raise
        except BaseException as error:
            _end(folder, heartbeat, "failed", f"{type(error).__name__}: {error}")
            raise
        _end(folder, heartbeat, "finished")


def _end(folder: Path, heartbeat: Heartbeat, status: Status, error: str | None = None) -> None:
    try:
        close_run_record(folder, status, error, heartbeat.updates)
    finally:
        heartbeat.stop(status)
    describe_run(folder)


def describe_run(folder: str | Path) -> None:
    """Write a run's experiment record and register entry from the present content of its folder."""
    write_experiment(folder)
    register_run(folder)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, end the block as Ctrl-C does, so that the run's end is written."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not ours:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
