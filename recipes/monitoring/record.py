"""A run as its folder describes it: `run.json` (configuration, code revision, data, end) and its present state."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chz

from ...datasets.atomic_files import write_json_atomically
from ...evaluation.records import git_revision, without_secrets
from .alarms import Alarm, alarms
from .heartbeat import STALE_AFTER, Status, now, read_heartbeat, silent_for
from .metrics import METRICS, MetricsLog, progress

RECORD = "run.json"


def read_run_record(folder: str | Path) -> dict[str, Any]:
    """The content of `run.json` in a run's folder, with folders where they are now if the run was moved.

    Raises `FileNotFoundError` if the folder is not the folder of a run.
    """
    path = Path(folder) / RECORD
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a run: {path} is missing; give the log_path of a training run")
    record = json.loads(path.read_text())
    record["config"] = _moved_along(Path(folder).resolve(), record.get("config", {}))
    return record


# Options that name folders, and what to do if one is gone. Values that are no absolute path (names) are no folders.
FOLDERS = {
    "dataset": "give the dataset's folder with --dataset, or build it again there",
    "model_name": "put the base model back there",
    "checkpoints": "put the engine's folder of weights back there",
    "load_checkpoint_path": "put the run that it started from back there",
}


def _moved_along(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A configuration with the folders of a run that was moved or copied: those that came along are in the same place
    relative to it."""
    before = config.get("log_path")
    if before is None or not Path(before).is_absolute() or Path(before) == folder:
        return config

    def found(place: str) -> str:
        if not Path(place).is_absolute() or Path(place).exists():
            return place
        beside = Path(os.path.abspath(folder / os.path.relpath(place, before)))
        return str(beside) if beside.exists() else place

    moved = {**config, "log_path": str(folder)}
    moved |= {name: found(config[name]) for name in FOLDERS if config.get(name)}
    if config.get("env_options"):
        moved["env_options"] = with_folders(config["env_options"], found)
    return moved


def with_folders(env_options: str, change: Callable[[str], str]) -> str:
    """Options of an environment as text, with the argument of every named part changed where it may be a folder.

    Examples
    --------
    >>> with_folders("prompt=short,challenger=reader:data,judge=tinker:model@tinker://a/b/c", str.upper)
    'prompt=short,challenger=reader:DATA,judge=tinker:MODEL@tinker://a/b/c'
    """
    parts = []
    for part in env_options.split(","):
        name, colon, argument = part.partition(":")
        place, at, path = argument.partition("@")
        parts.append(f"{name}{colon}{change(place) if place else place}{at}{path}")
    return ",".join(parts)


def require_folders(folder: str | Path, names: Sequence[str]) -> None:
    """Check that the folders that a run needs are still there.

    Raises `FileNotFoundError`, naming the option, the path and what to do, if one is gone.
    """
    config = read_run_record(folder)["config"]
    for name in names:
        place = config.get(name)
        if place and Path(place).is_absolute() and not Path(place).exists():
            raise FileNotFoundError(
                f"{folder} was trained with {name}={place}, which is gone; {FOLDERS[name]}, or write its new path into "
                f"{Path(folder) / RECORD} (config.{name})"
            )


def write_run_record(
    log_path: str | Path, recipe: str, config: Any, dataset: str, engine: Mapping[str, Any] | None = None
) -> None:
    """Write `run.json` into a run's folder before anything starts.

    A folder that has one already is resumed: start, command, revision and versions stay those of the start, and
    `resumptions` gets an entry with the time, what had become of the run (``killed`` where nobody had written an end),
    the updates it had made when last seen (training goes on from the last checkpoint, which may be before that), its
    own revision, and options that differ from before.

    Keys are never part of a configuration, they live in the environment; texts that look like one are removed all the
    same. Of the dataset in the folder `dataset`, content hash, label counts and ceiling are recorded.
    """
    # Imported here, so that reading records does not wait for Hugging Face's datasets.
    from ...datasets.store import load_card

    folder, card = Path(log_path), load_card(dataset)
    before = read_run_record(folder) if (folder / RECORD).is_file() else None
    record = {
        "recipe": recipe,
        "status": "running",
        "started": now(),
        "ended": None,
        "seconds": 0.0,
        "resumptions": [],
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "revision": git_revision(),
        "versions": {name: version(name) for name in ("scisci-gym", "tinker", "tinker-cookbook", "torch")},
        "dataset": {
            "folder": dataset,
            "content_hash": card["content_hash"],
            "splits": card["splits"],
            **({"ceiling": card["ceiling"]} if card.get("ceiling") else {}),
        },
        "engine": dict(engine or {}),
        "config": chz.asdict(config),
        "chosen": [name for name in chz.beta_to_blueprint_values(config, skip_defaults=True) if "." not in name],
    }
    record = json.loads(json.dumps(without_secrets(record), default=str))
    if before is not None:
        record = _resumed(before, record, read_heartbeat(folder))
    folder.mkdir(parents=True, exist_ok=True)
    write_json_atomically(folder / RECORD, record)


def close_run_record(log_path: str | Path, status: Status, error: str | None, updates: int) -> None:
    """Write into `run.json` how and when the run ended, and the seconds of training in all.

    A finished run that was started again and has made no more `updates` than before keeps its end.
    """
    record = read_run_record(log_path)
    attempt = record["resumptions"][-1] if record["resumptions"] else record
    nothing_left = attempt is not record and attempt["was"] == status == "finished"
    if nothing_left and attempt.get("updates_before") == updates:
        record["resumptions"].pop()
        record["ended"] = attempt["ended_before"]
    else:
        record["ended"] = now()
        record["seconds"] += _between(attempt["started"], record["ended"])
    record["status"] = status
    record.pop("error", None)
    if error is not None:
        record["error"] = without_secrets(error)
    write_json_atomically(Path(log_path) / RECORD, record)


def _resumed(before: dict[str, Any], record: dict[str, Any], heartbeat: dict[str, Any] | None) -> dict[str, Any]:
    was, seconds = before.get("status"), before.get("seconds", 0.0)
    earlier = before.get("resumptions", [])
    if was == "running":
        was = "killed"
        if heartbeat is not None:
            # Nobody wrote when it ended; its last heartbeat comes closest.
            seconds += _between(heartbeat["started"], heartbeat["time"])
    resumption = {
        "started": record["started"],
        "was": was,
        "ended_before": before.get("ended") or (heartbeat or {}).get("time"),
        "updates_before": (heartbeat or {}).get("step"),
        "revision": record["revision"],
        "versions": record["versions"],
        "engine": record["engine"],
        "command": record["command"],
        "changed": {
            name: [before["config"].get(name), record["config"].get(name)]
            for name in dict.fromkeys([*before["config"], *record["config"]])
            if before["config"].get(name) != record["config"].get(name)
        },
    }
    return {
        **record,
        "started": before["started"],
        **{name: before[name] for name in ("command", "revision", "versions", "engine") if name in before},
        "seconds": seconds,
        "resumptions": [*earlier, resumption],
    }


def _between(start: str, end: str) -> float:
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


@dataclass(frozen=True)
class RunState:
    """The state of a run at one moment.

    `record` is `run.json`, empty for a run that another program started through the cookbook, and `rows` are those of
    `metrics.jsonl`, one for each step. The status is ``running``, ``killed`` (its last heartbeat says that it runs, and
    is too old), ``finished``, ``failed``, ``interrupted``, or ``unknown`` (no record). `silent` are the seconds since
    the last heartbeat; `step` and `total` count the updates made and planned.
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
    """A run's folder, whose state can be read again and again.

    Raises `FileNotFoundError` if there is no such folder, or it holds neither `run.json` nor `metrics.jsonl`.
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
        """The state now. After `stale_after` seconds without a heartbeat a run counts as killed."""
        record = read_run_record(self.folder) if (self.folder / RECORD).is_file() else {}
        heartbeat, rows = read_heartbeat(self.folder), self._metrics.rows()
        status = str(record.get("status", "unknown"))
        silent = None
        if heartbeat is not None:
            silent = silent_for(heartbeat)
            if status == "running" and heartbeat["status"] == "running" and silent > stale_after:
                status = "killed"
        step, total = progress(rows)
        raised = alarms(rows)
        if status == "killed":
            text = f"no heartbeat for {silent:.0f} s, and no end was written: the process was killed; the same command "
            raised.insert(0, Alarm("killed", "error", step, text + "resumes it"))
        elif status == "failed":
            text = f"training ended with {record.get('error', 'an error')}"
            raised.insert(0, Alarm("failed", "error", step, text))
        return RunState(self.folder, record, rows, heartbeat, status, silent, step, total, raised)


def read_state(folder: str | Path, stale_after: float = STALE_AFTER) -> RunState:
    """`RunFolder.state`, once."""
    return RunFolder(folder).state(stale_after)
