"""A run that dies at any step and is started again ends with the metrics of one that did not, whatever the recipe."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chz
import pytest
from tinker_cookbook.utils import ml_log

from scisci_gym.recipes.experiments.runner import RECIPES
from scisci_gym.recipes.kit.engines import open_engine
from scisci_gym.recipes.monitoring.metrics import read_metrics

pytestmark = pytest.mark.slow
STEPS = 5
OPTIONS: dict[str, dict[str, Any]] = {
    "sft": {"rows": 16 * STEPS, "batch_size": 16, "save_every": 1},
    "sft in two epochs": {"rows": 48, "batch_size": 16, "save_every": 2, "num_epochs": 2},
    "dpo": {"rows": 8 * STEPS, "batch_size": 8, "save_every": 2, "eval_every": 2},
    "distill": {"max_steps": STEPS, "groups_per_batch": 2, "group_size": 2, "save_every": 2, "eval_every": 2},
    "rl": {"max_steps": STEPS, "groups_per_batch": 2, "group_size": 2, "save_every": 2, "curriculum": "margin"},
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    with open_engine("local", folder):
        yield folder


def run(recipe: str, dataset: Path, model: Path, log_path: Path) -> None:
    name = recipe.split()[0]
    options = {
        "dataset": str(dataset),
        "model_name": str(model),
        "log_path": str(log_path),
        "env_options": "prompt=short",
        "lora_rank": 4,
        "learning_rate": 1e-3,
        "max_tokens": 12,
        "validation_examples": 8,
        **({"teacher_model": str(model)} if name == "distill" else {}),
        **OPTIONS[recipe],
    }
    RECIPES[name].run(chz.Blueprint(RECIPES[name].config).apply(options).make())


def learned(log_path: Path) -> list[tuple]:
    """Step by step, without what depends on the clock."""
    names = ("train_mean_nll", "dpo_loss", "margin", "teacher_kl", "env/all/correct", "optim/entropy")
    names += ("validation/macro_f1", "validation/accuracy", "learning_rate")
    return [(row["step"], *(row.get(name) for name in names)) for row in read_metrics(log_path)]


@pytest.mark.parametrize("recipe", OPTIONS)
def test_a_run_that_died_ends_like_one_that_did_not(
    recipe: str, checkpoints: Path, dataset: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of a run's folder at one moment is what a kill at that moment leaves: here before and after step 3 is
    logged. Both copies are taken up again."""
    log_metrics = ml_log.MultiplexLogger.log_metrics
    run_folder, before, after = (tmp_path / name / "run" for name in ("whole", "before", "after"))

    def copy_at_three(self: ml_log.MultiplexLogger, metrics: dict[str, Any], step: int | None = None) -> None:
        if step == 3 and not before.exists():
            shutil.copytree(run_folder, before)
        log_metrics(self, metrics, step)
        if step == 3 and not after.exists():
            shutil.copytree(run_folder, after)

    with monkeypatch.context() as patched:
        patched.setattr(ml_log.MultiplexLogger, "log_metrics", copy_at_three)
        run(recipe, dataset, model, run_folder)
    for folder, last in ((before, 2), (after, 3)):
        assert read_metrics(folder)[-1]["step"] == last, "the copy was taken in the middle of training"
        run(recipe, dataset, model, folder)
        assert learned(folder) == learned(run_folder), folder.parent.name
