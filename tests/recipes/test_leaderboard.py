"""`scisci-gym eval --all` with a model on the local engine, interrupted and taken up again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_base_model_is_asked_once_and_a_killed_evaluation_goes_on(dataset: Path, model: Path, tmp_path: Path) -> None:
    """The whole command on the local engine, with half of the answers taken away before it is called again."""
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from scisci_gym.cli import main; main()", "eval", "--all", "--dataset"]
    command += [str(dataset), "--model", str(model), "--env", "disruption-v0", "--env", "hit-paper-forecast-v0"]
    command += ["--env-options", "prompt=short", "--max-tokens", "12", "--max-examples", "24", "--out", str(out)]
    command += ["--label-probabilities", "--engine", "local"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("TINKER_")}

    def called() -> dict:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=280)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert "zero-shot" in done.stdout
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
