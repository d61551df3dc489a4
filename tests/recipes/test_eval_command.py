"""`scisci-gym eval` as a person meets it: failures of the engine."""

from pathlib import Path
from typing import Any

import pytest
import tinker
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.recipes.experiments import evaluate


@pytest.mark.parametrize("arguments", [["RUN"], ["--all", "--dataset", "data"]])
def test_a_failure_of_the_engine_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the weights of a run were deleted, or the key of a service is wrong."""

    def fail(*_: Any, **__: Any) -> None:
        raise tinker.RequestFailedError("no such checkpoint\nmore", "id", tinker.types.RequestErrorCategory.User)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate, "evaluate_all", fail)
    monkeypatch.setattr(evaluate, "evaluate_run", fail)
    result = CliRunner().invoke(app, ["eval", *arguments])
    assert result.exit_code == 2
    assert "the engine failed: no such checkpoint (traceback in " in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in next(tmp_path.rglob("error.log")).read_text()
