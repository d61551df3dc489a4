"""A dataset card and runs made by hand, so that nothing has to be trained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chz
import pytest

SHARES = {"disruptive": 40, "consolidating": 20, "neutral": 20}


@chz.chz
class Config:
    """Options as recipes have them."""

    env: str = "disruption-v0"
    env_options: str = "prompt=short"
    dataset: str
    model_name: str = "tiny"
    load_checkpoint_path: str | None = None
    lora_rank: int = 4
    seed: int = 0
    question: str = ""
    choose_by: str | None = None
    log_path: str


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with the card of a dataset."""
    folder = tmp_path / "data"
    folder.mkdir()
    split = {"papers": 80, "years": [2000, 2001], "labels": SHARES}
    card = {"content_hash": "ab" * 32, "splits": {"train": split, "validation": split, "test": split}}
    (folder / "card.json").write_text(json.dumps(card))
    return folder


@pytest.fixture
def config(data: Path, tmp_path: Path) -> Callable[..., Config]:
    """Options of a run in `tmp_path/runs/NAME`."""

    def made(name: str = "one", **options: Any) -> Config:
        return Config(dataset=str(data), log_path=str(tmp_path / "runs" / name), **options)

    return made


def log(folder: str | Path, rows: list[dict[str, Any]]) -> None:
    """Append rows to a run's metrics, as the cookbook does."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with (Path(folder) / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
