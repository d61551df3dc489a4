"""A run as its folder tells it: what it was, how far it has come, and whether anybody is still training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .alarms import Alarm, alarms
from .heartbeat import STALE_AFTER, read_heartbeat, silent_for
from .metrics_log import METRICS, MetricsLog, progress
from .run_record import RECORD, read_run_record

EVALUATIONS = "eval_*.json"


@dataclass(frozen=True)
class RunState:
    """What is known about a run at one moment.

    Parameters
    ----------
    folder : Path
    record : mapping
        `run.json`; empty for a run that another program started through the cookbook.
    rows : list of mapping
        Of `metrics.jsonl`, one a step.
    heartbeat : mapping or None
    status : str
        ``running``, ``killed`` (says it runs and has been silent for too long), ``finished``, ``failed``,
        ``interrupted``, or ``unknown`` (nothing says how it ended).
    silent : float or None
        Seconds since the last heartbeat.
    step, total : int, int or None
        Updates made and planned.
    alarms : list of Alarm
    """

    folder: Path
    record: Mapping[str, Any]
    rows: list[dict[str, Any]] = field(repr=False)
    heartbeat: Mapping[str, Any] | None
    status: str
    silent: float | None
    step: int
    total: int | None
    alarms: list[Alarm]

    @property
    def config(self) -> Mapping[str, Any]:
        """The options it was trained with."""
        return self.record.get("config", {})

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.folder.resolve().name


class RunFolder:
    """A run's folder, to be looked at again and again.

    Raises
    ------
    FileNotFoundError
        If there is no such folder, or it holds neither `run.json` nor `metrics.jsonl`.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise FileNotFoundError(f"no folder {folder}; give the log_path of a training run")
        if not any((self.folder / name).is_file() for name in (RECORD, METRICS)):
            raise FileNotFoundError(
                f"{folder} is not a run: it has neither {RECORD} nor {METRICS}; give the log_path of a training run"
            )
        self._metrics = MetricsLog(self.folder)

    def state(self, stale_after: float = STALE_AFTER) -> RunState:
        """What is known now. `stale_after`: seconds without a heartbeat after which a run counts as killed."""
        record = read_run_record(self.folder) if (self.folder / RECORD).is_file() else {}
        heartbeat, rows = read_heartbeat(self.folder), self._metrics.rows()
        status = str(record.get("status", "unknown"))
        silent = None
        if heartbeat is not None:
            silent = silent_for(heartbeat)
            if status == "running" and heartbeat["status"] == "running" and silent > stale_after:
                status = "killed"
        step, total = progress(rows)
        found = [*_about_status(status, record, silent, step), *alarms(rows)]
        return RunState(self.folder, record, rows, heartbeat, status, silent, step, total, found)


def read_state(folder: str | Path, stale_after: float = STALE_AFTER) -> RunState:
    """`RunFolder.state`, once."""
    return RunFolder(folder).state(stale_after)


def read_evaluations(folder: str | Path) -> dict[str, dict[str, Any]]:
    """What `scisci-gym eval` wrote into a run's folder about its policy: split -> its JSON."""
    found = {path.stem.removeprefix("eval_"): json.loads(path.read_text()) for path in Path(folder).glob(EVALUATIONS)}
    return {split: evaluation for split, evaluation in sorted(found.items()) if "policy" in evaluation}


def _about_status(status: str, record: Mapping[str, Any], silent: float | None, step: int) -> list[Alarm]:
    if status == "killed":
        text = (
            f"no heartbeat for {silent:.0f} s and no end written: the process was killed; the same command resumes it"
        )
        return [Alarm("killed", "error", step, text)]
    if status == "failed":
        return [Alarm("failed", "error", step, f"training ended with {record.get('error', 'an error')}")]
    return []
