"""`scisci-gym train` before and around training: options are described, wrong ones take one line, progress is quiet."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from scisci_gym.cli import app
from scisci_gym.recipes.experiments.runner import RECIPES, Runner, training_progress
from scisci_gym.recipes.kit.compat import options_of
from scisci_gym.recipes.kit.config import COUNTS, RecipeConfig


def train(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["train", *arguments])


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_option_of_a_recipe_is_described_and_listed(recipe: str) -> None:
    undescribed = [name for name, (_, doc) in options_of(RECIPES[recipe].config).items() if not doc.endswith(".")]
    assert not undescribed
    result = train(recipe, "--help-options")
    assert result.exit_code == 0
    listed = {line.partition("=")[0] for line in result.stdout.splitlines() if "=" in line and line[0] != " "}
    assert set(options_of(RECIPES[recipe].config)) <= listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learning_rate=abc", "dataset=x", "model_name=y", "log_path=z"], "'abc' provided for param 'learning_rate'"),
        (["lerning_rate=1"], "rl has no option 'lerning_rate'; did you mean learning_rate?"),
        (["nothing-like-it=1"], "it has adapter, balance_labels"),
        ([], "dataset, model_name, log_path; `scisci-gym train rl --help-options` lists the options"),
        (["learning_rate"], "'learning_rate' is no option of a recipe; they are given as name=value"),
        (["--lora-rank=3"], "'--lora-rank=3' is no option of a recipe; they are given as name=value"),
    ],
)
def test_a_wrong_option_is_named_on_one_line(arguments: list[str], message: str) -> None:
    result = train("rl", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_below_one_is_refused_by_every_recipe_that_has_it(name: str, tmp_path: Path) -> None:
    recipes = [recipe for recipe in RECIPES.values() if name in options_of(recipe.config)]
    assert recipes
    required = ("dataset", "model_name", "log_path", "renderer_name", "teacher_model")
    for recipe in recipes:
        given = {option: str(tmp_path) for option in required if option in options_of(recipe.config)}
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            recipe.checked(recipe.config(**given, **{name: 0}))


def test_progress_without_a_terminal_is_a_line_for_each_tenth(tmp_path: Path) -> None:
    def rows(*steps: int) -> str:
        return "".join(json.dumps({"step": step, "progress": (step + 1) / 40}) + "\n" for step in steps)

    shown = io.StringIO()
    (tmp_path / "metrics.jsonl").write_text(rows(*range(20)))
    with redirect_stdout(shown), training_progress("rl", tmp_path, 40, Console()):
        print("what the cookbook prints")
        with (tmp_path / "metrics.jsonl").open("a") as metrics:
            metrics.write(json.dumps({"step": 20, "env/all/reward/total": 0.5}) + "\n" + rows(21, 22, 23))
    assert shown.getvalue() == "rl  reward 0.50  24/40\n"
    assert "what the cookbook prints" in (tmp_path / "console.log").read_text()


def test_an_evaluation_after_the_last_update_is_no_update(tmp_path: Path) -> None:
    shown = io.StringIO()
    rows = [{"step": 0, "progress": 0.5}, {"step": 1, "progress": 1.0}, {"step": 2, "validation/macro_f1": 0.25}]
    with redirect_stdout(shown), training_progress("rl", tmp_path, 2, Console()):
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert shown.getvalue() == "rl  validation macro-F1 0.25  2/2\n"


def test_an_interrupted_run_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "train", interrupted)
    monkeypatch.setitem(RECIPES, "rl", replace(RECIPES["rl"], build=lambda _: None))
    result = train("rl", "dataset=x", "model_name=y", "log_path=z")
    assert result.exit_code == 130
    assert result.stderr == "stopped; the same command goes on from the last checkpoint\n"


def test_a_run_ends_with_its_result_and_the_next_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def trained(_: Runner, recipe: str, cfg: RecipeConfig, title: str) -> None:
        record = {"recipe": recipe, "status": "finished", "config": {"env": cfg.env, "max_steps": 2}}
        (tmp_path / "run.json").write_text(json.dumps(record))
        (tmp_path / "metrics.jsonl").write_text('{"step": 1, "progress/batch": 1, "validation/macro_f1": 0.5}\n')

    monkeypatch.setattr(Runner, "train", trained)
    monkeypatch.setitem(RECIPES, "rl", replace(RECIPES["rl"], build=lambda _: None))
    result = train("rl", "dataset=x", "model_name=y", f"log_path={tmp_path}")
    assert result.exit_code == 0, result.output
    first, second, *_, last = result.stdout.splitlines()
    assert first.startswith(f"{tmp_path}: finished, ")
    assert second.startswith("Best validation macro-F1 is 0.500 (step 1)")
    assert last == f"next: scisci-gym eval {tmp_path}; scisci-gym report {tmp_path}"
