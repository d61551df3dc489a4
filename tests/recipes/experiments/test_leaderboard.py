"""`scisci-gym eval --all` with a model on the local engine, interrupted and taken up again."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.evaluation import learners


@pytest.mark.slow
def test_a_base_model_is_asked_once_and_a_killed_evaluation_goes_on(
    dataset: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command on the local engine, with half of the answers taken away before it is called again."""
    # The baselines are not what is tested here.
    for name, value in (("STRENGTHS", (0.3,)), ("RATES", (0.1,)), ("ROUNDS", 3)):
        monkeypatch.setattr(learners, name, value)
    learners._candidates.cache_clear()
    out = tmp_path / "out"
    command = ["eval", "--all", "--dataset", str(dataset), "--model", str(model), "--out", str(out)]
    command += ["--env", "disruption-v0", "--env", "hit-paper-forecast-v0", "--env-options", "prompt=short"]
    command += ["--max-tokens", "12", "--max-examples", "24", "--label-probabilities", "--engine", "local"]

    def called() -> dict:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output[-4000:]
        assert "zero-shot" in done.output
        return json.loads((out / "leaderboard.json").read_text())

    first = called()
    by_env = {each["env"]: each for each in first["environments"]}
    policy = by_env["disruption-v0"]["entries"][-1]
    assert policy["kind"] == "base model"
    assert policy["outcome"]["calibration"]["answered"] == 1
    assert by_env["hit-paper-forecast-v0"]["entries"][-1]["outcome"]["calibration"] is not None
    kept = sorted(out.rglob("trajectories.jsonl")) + sorted(out.rglob("label_probabilities.jsonl"))
    assert len(kept) == 3
    whole = {path: path.read_text().splitlines() for path in kept}
    for path, lines in whole.items():
        # Half of the answers, and a line that was cut short by a kill.
        path.write_text("\n".join(lines[: len(lines) // 2]) + "\n" + lines[-1][:20])
    again = called()
    for path, lines in whole.items():
        now = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        assert sorted(row["example_id"] for row in now) == sorted(json.loads(line)["example_id"] for line in lines)
        assert path.read_text().startswith("\n".join(lines[: len(lines) // 2]))
    assert again["environments"] == first["environments"]
