"""How long a study will take, from runs made by hand."""

import json
from pathlib import Path

import pytest

from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.study import training_left
from scisci_gym.recipes.monitoring.recorded import register_run

RL = {"groups_per_batch": 4, "group_size": 10, "max_steps": 20}
ARMS = (
    Arm("base", "base model"),
    Arm("sft", "SFT", "sft", None, {"batch_size": 8, "num_epochs": 2}),
    Arm("rl", "RL", "rl", None, RL),
)


@pytest.fixture
def plan(tmp_path: Path) -> StudyPlan:
    split = {"papers": 80, "years": [2000, 2001], "labels": {}}
    (tmp_path / "data").mkdir()
    card = {"content_hash": "ab" * 32, "splits": {"train": split, "validation": split, "test": split}}
    (tmp_path / "data" / "card.json").write_text(json.dumps(card))
    (tmp_path / "runs" / "model").mkdir(parents=True)
    return StudyPlan(str(tmp_path / "data"), str(tmp_path / "runs" / "model"), ARMS, seeds=(0, 1))


def trained(folder: Path, plan: StudyPlan, recipe: str, updates: int, seconds: float, **config: object) -> None:
    """The files of a finished run of the plan's model."""
    folder.mkdir(parents=True)
    config = {"model_name": plan.model_name, "env": plan.env, "dataset": plan.dataset, "seed": 0, **config}
    record = {"recipe": recipe, "status": "finished", "seconds": seconds, "started": "2026-01-01T00:00:00+00:00"}
    record |= {"ended": record["started"], "resumptions": [], "config": config, "dataset": {"folder": plan.dataset}}
    (folder / "run.json").write_text(json.dumps(record))
    rows = [{"step": step, "progress/done_frac": (step + 1) / updates} for step in range(updates)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    register_run(folder)


def test_without_an_earlier_run_only_the_work_is_known(plan: StudyPlan, tmp_path: Path) -> None:
    left = training_left(plan, tmp_path / "study")
    assert (left.runs, left.updates) == (4, 2 * (20 + 2 * 80 // 8))
    assert left.time.startswith("no earlier run of this model tells how long that takes")


def test_runs_of_the_same_model_tell_how_long_a_sample_takes(plan: StudyPlan, tmp_path: Path) -> None:
    # 10 updates of 20 rollouts in 100 seconds; the study makes 2 times 20 updates of 40 rollouts.
    trained(tmp_path / "runs" / "earlier", plan, "rl", 10, 100.0, groups_per_batch=4, group_size=5)
    trained(tmp_path / "runs" / "other", plan, "rl", 10, 9e9, env="novelty-v0", groups_per_batch=4, group_size=5)
    left = training_left(plan, tmp_path / "study")
    assert left.seconds == pytest.approx(800)
    assert left.time == "about 13 min without sft, of which there is no run yet"
    assert left.sources == (str(tmp_path / "runs" / "earlier"),)


def test_what_the_study_has_trained_counts_for_the_rest(plan: StudyPlan, tmp_path: Path) -> None:
    trained(tmp_path / "study" / "seed0" / "rl", plan, "rl", 20, 7200.0, **RL)
    trained(tmp_path / "study" / "seed0" / "sft", plan, "sft", 20, 160.0, batch_size=8)
    left = training_left(plan, tmp_path / "study")
    # Neither was trained with the options of the plan, so all four are to be trained.
    assert (left.runs, left.unknown) == (4, ())
    assert left.time == "about 4.1 h"
