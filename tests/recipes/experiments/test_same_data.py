"""What goes on with a dataset that was rebuilt or updated in place is refused before anything is asked or trained."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.recipes.experiments.demo import Demo, DemoSettings
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.study import run_studies, train_seeds
from scisci_gym.recipes.experiments.sweep import Sweep

OLD, NEW = "a" * 64, "b" * 64
BASE = Arm("base", "base model")
RL = Arm("rl", "RL", "rl", None, {"max_steps": 2, "learning_rate": 1e-3})
QUIET = Console(quiet=True)


def build(data: Path, content_hash: str) -> Path:
    papers = sample_papers()
    save_dataset(data, {"train": papers, "validation": papers, "test": papers})
    card = {"content_hash": content_hash, "splits": {"train": {"papers": len(papers)}}}
    (data / "card.json").write_text(json.dumps(card))
    return data


def write_run(folder: Path, content_hash: str) -> None:
    folder.mkdir(parents=True)
    record = {"recipe": "rl", "status": "running", "config": {}, "dataset": {"content_hash": content_hash}}
    (folder / "run.json").write_text(json.dumps(record))


def test_a_study_goes_on_with_the_same_data_only(tmp_path: Path) -> None:
    data, out = build(tmp_path / "data", OLD), tmp_path / "study"
    plan = StudyPlan(str(data), "model", (BASE,))
    for _ in range(2):
        train_seeds(plan, out, (), QUIET)
    assert json.loads((out / "plan.json").read_text())["content_hash"] == OLD
    build(data, NEW)
    with pytest.raises(BadInput) as refused:
        train_seeds(plan, out, (), QUIET)
    assert str(refused.value) == (
        f"{out} was begun with a dataset of hash {OLD[:12]}, and {data} has {NEW[:12]} now; delete the study's folder, "
        "or build the dataset again as it was"
    )
    build(data, OLD)
    train_seeds(plan, out, (), QUIET)


def test_no_study_of_a_plan_is_started_if_the_data_of_one_have_changed(tmp_path: Path) -> None:
    data = build(tmp_path / "data", OLD)
    plan = StudyPlan(str(data), "model", (BASE,))
    train_seeds(plan, tmp_path / "second", (), QUIET)
    build(data, NEW)
    with pytest.raises(BadInput, match=r"study 'second': .* was begun with a dataset of hash"):
        run_studies({"first": plan, "second": plan}, tmp_path, QUIET, seeds=())
    assert not (tmp_path / "first").exists()


def test_a_study_of_an_earlier_version_goes_on_with_the_data_of_its_runs(tmp_path: Path) -> None:
    data, out = build(tmp_path / "data", NEW), tmp_path / "study"
    plan = StudyPlan(str(data), "model", (BASE, RL), seeds=(4,))
    write_run(plan.folder(out, RL, 4), OLD)
    (out / "plan.json").write_text(json.dumps(plan.to_json()))
    with pytest.raises(BadInput, match=f"hash {OLD[:12]}, .* has {NEW[:12]} now"):
        train_seeds(plan, out, (), QUIET)
    build(data, OLD)
    train_seeds(plan, out, (), QUIET)
    assert json.loads((out / "plan.json").read_text())["content_hash"] == OLD


def test_a_study_of_an_earlier_version_without_runs_goes_on(tmp_path: Path) -> None:
    data, out = build(tmp_path / "data", NEW), tmp_path / "study"
    plan = StudyPlan(str(data), "model", (BASE, RL))
    out.mkdir()
    (out / "plan.json").write_text(json.dumps(plan.to_json()))
    train_seeds(plan, out, (), QUIET)


def test_a_sweep_goes_on_with_the_same_data_only(tmp_path: Path) -> None:
    data, out = build(tmp_path / "data", NEW), tmp_path / "sweep"
    base = {"dataset": str(data), "model_name": "model", "renderer_name": "qwen3", "learning_rate": 1e-3}
    sweep = Sweep("rl", {"seed": ["0", "1"]}, out, base)
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    write_run(out / "seed=1", OLD)
    with pytest.raises(BadInput, match=r"seed=1 was begun with a dataset of hash aaaaaaaaaaaa, .* delete that folder"):
        sweep.run(QUIET)
    assert not (out / "seed=0").exists()


def test_a_demo_goes_on_with_the_same_data_only(tmp_path: Path) -> None:
    settings = DemoSettings()
    build(tmp_path / "data", NEW)
    card = json.loads((tmp_path / "data" / "card.json").read_text())
    (tmp_path / "data" / "card.json").write_text(json.dumps({**card, "split": {"kind": "closed"}}))
    (tmp_path / "demo.json").write_text(json.dumps({**vars(settings), "content_hash": OLD}))
    with pytest.raises(BadInput, match=f"hash {OLD[:12]}, .* give --fresh to start over, or build the dataset again"):
        Demo(tmp_path, settings, QUIET).run()
