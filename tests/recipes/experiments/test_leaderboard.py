"""`scisci-gym eval --all` with a model on the local engine, interrupted and taken up again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.evaluation import learned_baselines
from scisci_gym.evaluation.leaderboard import LeaderboardOptions
from scisci_gym.recipes.experiments.evaluate import _base_model


@pytest.mark.parametrize(("env_id", "longest"), [("disruption-v0", 11), ("novelty-v0", 1024)])
def test_a_tiny_model_is_asked_as_it_was_made_to_be(env_id: str, longest: int, tmp_path: Path) -> None:
    """Its longest answer is known for its own environment only; an option that an environment lacks is left out."""
    notes = {"env": "disruption-v0", "env_options": {"prompt": "short", "control_rate": 0.0}}
    (tmp_path / "init_report.json").write_text(json.dumps({"notes": notes, "longest_answer": 9}))
    options = LeaderboardOptions("data", tmp_path, model=str(tmp_path), renderer_name="qwen3_instruct")
    task = _base_model(options, env_id).task
    assert (task.options, task.max_tokens) == ({"prompt": "short"}, longest)
    given = _base_model(replace(options, env_options="prompt=full", max_tokens=5), env_id).task
    assert (given.options, given.max_tokens) == ({"prompt": "full"}, 5)


@pytest.mark.slow
def test_a_base_model_is_asked_once_and_a_killed_evaluation_goes_on(
    dataset: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command on the local engine, with half of the answers taken away before it is called again."""
    # The baselines are not what is tested here.
    for name, value in (("STRENGTHS", (0.3,)), ("RATES", (0.1,)), ("ROUNDS", 3)):
        monkeypatch.setattr(learned_baselines, name, value)
    learned_baselines._candidates.cache_clear()
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
