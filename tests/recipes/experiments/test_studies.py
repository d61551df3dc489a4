"""`scisci-gym study --plan`: what it refuses, and a small plan from training in parts to the page about it."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app

PLAN = """
[all]
dataset = "{dataset}"
model = "{model}"
env_options = "prompt=short"
seeds = [1, 2]
metric = "mcc"
flip_examples = 0
sampled = false
validation_examples = 12
max_examples = 24
primary = [["sft", "format"]]
baselines = ["class prior", "metadata + TF-IDF"]

[arms.format]
recipe = "sft"
options = {{ answers = "random", rows = 32, batch_size = 16, max_tokens = 12, validation_examples = 0 }}

[arms.sft]
recipe = "sft"
options = {{ batch_size = 16, max_tokens = 12 }}

[[studies]]
name = "few"
train_papers = 32

[[studies]]
name = "more"
train_papers = 64
"""


def study(*arguments: str):
    return CliRunner().invoke(app, ["study", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "d"], "says that already: leave out --dataset"),
        (["--max-examples", "4", "rl.max_steps=3"], "leave out --max-examples rl.max_steps=3"),
        (["--only", "many"], "--only many: .* has the studies few, more"),
        ([], "study 'few': .*nowhere"),
    ],
)
def test_what_the_plan_says_is_not_said_again(tmp_path: Path, arguments: list[str], message: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(dataset=tmp_path / "nowhere", model="m"))
    result = study("--plan", str(plan), "--out", str(tmp_path / "out"), *arguments)
    assert result.exit_code == 2
    assert re.search(message, result.output.replace("\n", " ")), result.output
    assert not (tmp_path / "out").exists()


def test_a_choice_of_studies_needs_a_plan() -> None:
    result = study("--only", "few")
    assert result.exit_code == 2
    assert "give --plan as well" in result.output


@pytest.mark.slow
def test_processes_share_the_training_and_one_compares(dataset: Path, model: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN.format(dataset=dataset, model=model))
    command = ["--plan", str(plan), "--out", str(out), "--engine", "local"]
    foreign = study(*command, "--seeds", "3")
    assert foreign.exit_code == 2
    assert "no seed 3; its seeds are 1, 2" in foreign.output
    part = study(*command, "--only", "few", "--seeds", "2")
    assert part.exit_code == 0, part.output
    assert (out / "few" / "seed2" / "sft" / "run.json").is_file()
    assert not (out / "few" / "seed1").exists()
    assert not list(out.rglob("trajectories.jsonl")), "no test paper is asked before all runs are trained"
    whole = study(*command, "--only", "few")
    assert whole.exit_code == 0, whole.output
    assert "sft, seed 2 (done before)" in whole.output
    found = json.loads((out / "few" / "study.json").read_text())
    assert found["plan"]["train_papers"] == 32
    assert json.loads((out / "few" / "seed1" / "sft" / "run.json").read_text())["config"]["rows"] == 32
    scores = {row["name"]: row["scores"] for row in found["rows"]}
    assert set(scores) == {"class prior", "metadata + TF-IDF", "format", "sft"}
    assert all({"mcc", "macro_f1", "auroc", "brier_skill", "ece"} <= set(each) for each in scores.values())
    assert [len(row["by_seed"]) for row in found["rows"]] == [2] * 4, "the seed draws the baselines' papers too"
    assert found["verdict"][0].startswith(("Yes: ", "Not shown: "))
    assert f"few: {found['verdict'][0].split(' is ')[0]}" in (out / "report.html").read_text()


@pytest.mark.slow
def test_a_pilot_compares_nothing(dataset: Path, model: Path, tmp_path: Path) -> None:
    """Its page used to want an answer first, and failed after the last run without one."""
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    text = PLAN.format(dataset=dataset, model=model).replace('primary = [["sft", "format"]]', "comparisons = []")
    plan.write_text(text.replace("seeds = [1, 2]", "seeds = [1]"))
    done = study("--plan", str(plan), "--only", "few", "--split", "validation", "--out", str(out), "--engine", "local")
    assert done.exit_code == 0, done.output
    page = (out / "report.html").read_text()
    assert "class prior" in page
    assert "Paired comparisons" not in page
