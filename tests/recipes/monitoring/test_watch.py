"""`scisci-gym watch`: snapshots of runs of every recipe and in every state, for people and for scripts."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.recipes.monitoring.record import read_state
from scisci_gym.recipes.monitoring.recorded import recorded_run
from scisci_gym.recipes.monitoring.watch import screen

from .conftest import log

RL = {
    "progress/done_frac": 0.5,
    "env/all/reward/total": 0.25,
    "env/all/correct": 0.6,
    "optim/entropy": 0.7,
    "optim/kl_sample_train_v1": 1e-5,
    "optim/kl_sample_train_v2": 1e-6,
    "kl_policy_base": 0.02,
    "env/all/reward_uniform_group_rate": 0.5,
    "env/all/reward_uniform_floor_rate": 0.125,
    "env/all/reward_uniform_best_rate": 0.375,
    "env/all/truncated": 0.03,
    "env/all/predicted/neutral": 0.75,
    "env/all/expected/neutral": 0.5,
    "env/all/total_ac_tokens": 600,
    "time/total": 2.0,
}
SFT = {"progress": 0.5, "train_mean_nll": 0.4, "num_tokens": 900, "time/finish_batch": 0.9}
DPO = {"progress": 0.0, "dpo_loss": 0.69, "accuracy": 0.5, "margin": 0.0, "num_tokens": 10, "time/total": 1.0}


def run_of(config, rows: list[dict], recipe: str = "rl") -> str:
    with recorded_run(recipe, config):
        log(config.log_path, [{"step": step, **row} for step, row in enumerate(rows)])
    return config.log_path


def watched(*arguments: str):
    return CliRunner().invoke(app, ["watch", *arguments], env={"COLUMNS": "120"})


def test_a_healthy_rl_run(config) -> None:
    shown = watched(run_of(config(), [RL] * 3), "--once")
    assert shown.exit_code == 0, shown.output
    for text in (
        "rl on disruption-v0",
        "finished",
        "3 of 6 updates",
        "reward",
        "0.25",
        "KL to the reference",
        "entropy",
    ):
        assert text in shown.output
    for text in ("groups all at the floor", "0.125", "groups all at the best", "0.375", "tokens per second", "300"):
        assert text in shown.output
    assert "no alarms" in shown.output


@pytest.mark.parametrize(
    ("recipe", "row", "texts"),
    [("sft", SFT, ("loss", "0.4", "1,000")), ("dpo", DPO, ("loss (DPO)", "0.69", "pairs ranked right", "0.5"))],
)
def test_runs_of_other_recipes(config, recipe: str, row: dict, texts: tuple[str, ...]) -> None:
    shown = watched(run_of(config(), [row], recipe), "--once")
    assert shown.exit_code == 0, shown.output
    for text in texts:
        assert text in shown.output
    assert "reward " not in shown.output.replace("reward margin", "")


def test_an_alarm_sets_the_exit_status(config) -> None:
    path = run_of(config(), [{**RL, "env/all/truncated": 0.6}] * 5)
    shown = watched(path, "--once")
    assert shown.exit_code == 1
    assert "truncation" in shown.output
    assert watched(path, "--json").exit_code == 1


def test_json_for_scripts(config) -> None:
    shown = watched(run_of(config(), [{**RL, "optim/entropy": float("nan")}, RL]), "--json")
    found = json.loads(shown.output)
    assert (found["status"], found["step"], found["total"], found["recipe"]) == ("finished", 2, 4, "rl")
    assert found["metrics"]["env/all/reward/total"]["last"] == [1, 0.25]
    assert found["metrics"]["tokens_per_second"]["last"] == [1, 300.0]
    assert found["predicted"] == {"neutral": 0.75}
    assert [alarm["name"] for alarm in found["alarms"]] == ["not-finite"]


def test_a_killed_run(config) -> None:
    path = Path(run_of(config(), [RL]))
    long_ago = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    for name in ("run.json", "heartbeat.json"):
        content = json.loads((path / name).read_text()) | {"status": "running", "time": long_ago}
        (path / name).write_text(json.dumps(content))
    shown = watched(str(path), "--once")
    assert shown.exit_code == 1
    assert "killed" in shown.output
    assert "0:05:00 ago" in shown.output
    assert "running" in watched(str(path), "--once", "--stale-after", "1000").output


def test_a_run_without_metrics_yet_and_one_of_another_program(config, tmp_path: Path) -> None:
    shown = watched(run_of(config(), []), "--once")
    assert shown.exit_code == 0
    assert "no metrics yet" in shown.output
    log(tmp_path / "foreign", [{"step": 0, **RL}])
    shown = watched(str(tmp_path / "foreign"), "--once")
    assert shown.exit_code == 0
    assert "no heartbeat" in shown.output


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_a_folder_that_is_no_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    shown = watched(str(tmp_path / name), "--once")
    assert shown.exit_code == 2
    assert "log_path" in shown.stderr


def test_names_are_text_and_not_markup(config) -> None:
    row = {**RL, "env/all/predicted/[red]x": 1.0, "env/all/expected/[red]x": 0.1}
    path = run_of(config("[bold]run"), [row] * 5)
    console = Console(record=True, width=120, force_terminal=True)
    console.print(screen(read_state(path), 120))
    text = console.export_text()
    assert "[bold]run" in text
    assert "[red]x" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_the_terminal(config, width: int) -> None:
    console = Console(record=True, width=width, force_terminal=True)
    console.print(screen(read_state(run_of(config(), [RL] * 50)), width))
    assert max(map(len, console.export_text().splitlines())) <= width
