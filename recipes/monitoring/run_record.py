"""What a run was: configuration, code revision and data, written before anything starts."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chz

from ...datasets.store import load_card

RECORD = "run.json"


def write_run_record(log_path: str | Path, recipe: str, config: Any, dataset: str) -> dict[str, Any]:
    """Write `run.json` into a run's folder and return what it holds.

    Parameters
    ----------
    recipe : str
    config : chz object
        The resolved configuration. Keys are never part of a configuration, they live in the environment.
    dataset : str
        Dataset folder; its content hash is recorded.
    """
    record = {
        "recipe": recipe,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "revision": git_revision(),
        "versions": {name: version(name) for name in ("scisci-gym", "tinker", "tinker-cookbook", "torch")},
        "dataset": {"folder": dataset, "content_hash": load_card(dataset)["content_hash"]},
        "config": chz.asdict(config),
    }
    folder = Path(log_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RECORD).write_text(json.dumps(record, indent=2, default=str) + "\n")
    return record


def git_revision() -> str | None:
    """Revision of the code, with ``+`` where files differ from it; None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        shown = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
