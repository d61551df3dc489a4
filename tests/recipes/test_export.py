"""`scisci-gym engine export` finds what a run has trained."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.recipes.cli.runs import locate

PATH = "tinker://s:train:0/sampler_weights/000002"


def test_a_run_is_found_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"config": {"checkpoints": "runs/elsewhere"}}))
    record = {"name": "000002", "batch": 2, "sampler_path": PATH, "state_path": PATH.replace("sampler_", "")}
    (tmp_path / "checkpoints.jsonl").write_text(json.dumps(record) + "\n")
    assert locate(str(tmp_path), None) == (PATH, Path("runs/elsewhere"))
    assert locate(str(tmp_path), Path("here")) == (PATH, Path("here"))
    assert locate(PATH, None) == (PATH, Path("runs/checkpoints"))
    with pytest.raises(FileNotFoundError, match="not a run"):
        locate(str(tmp_path / "nothing"), None)


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    arguments = ["engine", "export", PATH, "--out", str(tmp_path / "out"), "--checkpoints", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert "there is no checkpoint" in " ".join(result.output.split())
