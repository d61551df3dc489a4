"""`heartbeat.json`: a file by which a watchdog sees whether a run is alive, without knowing about training.

It is replaced as a whole every few seconds; docs/monitoring.md lists its fields. A process that is killed (``kill -9``,
out of memory, power) cannot write its end: the status stays ``running`` and the time no longer changes. `is_alive`
applies this rule.
"""

import json
import logging
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...datasets.atomic_files import write_json_atomically
from .metrics import MetricsLog, progress

HEARTBEAT = "heartbeat.json"
EVERY = 5.0
STALE_AFTER = 60.0
Status = Literal["running", "finished", "failed", "interrupted"]

logger = logging.getLogger(__name__)


def now() -> str:
    """The present time in the form of the records: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_heartbeat(folder: str | Path) -> dict[str, Any] | None:
    """The last heartbeat in a run's folder; None if there is none."""
    try:
        return json.loads((Path(folder) / HEARTBEAT).read_text())
    except FileNotFoundError:
        return None


def silent_for(heartbeat: dict[str, Any]) -> float:
    """Seconds since a heartbeat was written, by this machine's clock; 0 for one from the future."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(heartbeat["time"])).total_seconds())


def is_alive(folder: str | Path, stale_after: float = STALE_AFTER) -> bool:
    """Whether a process is training in this folder, by its heartbeat.

    It is not alive if it ended (see `status` in the file for how), was killed, or never started. After `stale_after`
    seconds without a heartbeat a process counts as dead; for one on another machine, leave room for clocks that differ.

    Examples
    --------
    >>> is_alive("no/such/run")
    False
    """
    heartbeat = read_heartbeat(folder)
    return heartbeat is not None and heartbeat["status"] == "running" and silent_for(heartbeat) <= stale_after


class Heartbeat:
    """A thread that writes `heartbeat.json` into a run's folder every so many seconds, from `start` until `stop`."""

    def __init__(self, folder: str | Path, every: float = EVERY):
        self.folder, self.every = Path(folder), every
        self._started = now()
        self._metrics = MetricsLog(folder)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first heartbeat, so that the file exists before training starts, and start the thread."""
        self._write("running")
        self._thread.start()

    def stop(self, status: Status) -> None:
        """Stop the thread and write how the run ended."""
        self._stop.set()
        self._thread.join()
        self._write(status)

    @property
    def updates(self) -> int:
        """Updates that the run has made so far."""
        return progress(self._metrics.rows())[0]

    def _beat(self) -> None:
        while not self._stop.wait(self.every):
            try:
                self._write("running")
            except OSError as error:
                # Training itself fails on a full or missing disk; a watchdog sees that the time does not change.
                logger.warning("no heartbeat written to %s: %s", self.folder / HEARTBEAT, error)

    def _write(self, status: Status) -> None:
        done, total = progress(self._metrics.rows())
        process = {"pid": os.getpid(), "host": socket.gethostname(), "started": self._started}
        fields = {"status": status, "time": now(), "every": self.every, **process, "step": done, "total": total}
        write_json_atomically(self.folder / HEARTBEAT, fields)
