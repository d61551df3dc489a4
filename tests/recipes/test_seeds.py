"""The seeds of a study and of a sweep are seeds: of first weights and first samples, on one engine."""

import json
from pathlib import Path
from typing import Any

import pytest
import tinker
from rich.console import Console
from safetensors.numpy import load_file

from scisci_gym.recipes import sft
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.runner import RECIPES, Runner
from scisci_gym.recipes.experiments.study import train_arms
from scisci_gym.recipes.experiments.sweep import Sweep
from scisci_gym.recipes.kit.recipe import Recipe

SEEDS = (0, 1)
OPTIONS: dict[str, Any] = {"lora_rank": 2, "validation_examples": 0, "max_tokens": 8}


async def look(cfg: sft.CLIConfig, config: Any) -> None:
    """Do what a recipe does before its first step, on one fixed prompt: a client without a seed, and eight samples."""
    trainer = await tinker.ServiceClient().create_lora_training_client(cfg.model_name, rank=cfg.lora_rank)
    state = await trainer.save_state("first")
    sampler = await trainer.save_weights_and_get_sampling_client()
    prompt = tinker.ModelInput.from_ints(list(range(10, 30)))
    answer = await sampler.sample(prompt, 8, tinker.SamplingParams(max_tokens=8, temperature=1.0))
    seen = {"path": state.path, "samples": [list(one.tokens) for one in answer.sequences]}
    Path(cfg.log_path, "first.json").write_text(json.dumps(seen))


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe("sft", sft.CLIConfig, lambda cfg: None, look)
    monkeypatch.setitem(RECIPES, "sft", recipe)


def first(folder: Path, checkpoints: Path) -> tuple[dict[str, bytes], list[list[int]]]:
    """First weights of the run's adapter and its first samples."""
    seen = json.loads((folder / "first.json").read_text())
    [stored] = checkpoints.rglob(f"{seen['path'].split('/')[2].replace(':', '_')}/**/adapter_model.safetensors")
    return {name: array.tobytes() for name, array in load_file(stored).items()}, seen["samples"]


def check(one: Path, again: Path, other: Path, checkpoints: Path) -> None:
    weights, samples = first(one, checkpoints)
    assert first(again, checkpoints) == (weights, samples), "the same seed repeats"
    other_weights, other_samples = first(other, checkpoints)
    assert other_weights.keys() == weights.keys()
    assert other_weights != weights, "another seed has other first weights"
    assert other_samples != samples, "and other first samples"


def test_seeds_of_a_study_differ_and_repeat(looking: None, dataset: Path, model: Path, tmp_path: Path) -> None:
    """Two arms of the same options are the same run but for their name: with one seed they start alike."""
    arms = (Arm("sft", "one", "sft", None, OPTIONS), Arm("again", "the same", "sft", None, OPTIONS))
    plan = StudyPlan(str(dataset), str(model), arms, env_options="prompt=short", seeds=SEEDS, validation_examples=0)
    with Runner(Console(quiet=True), "local") as runner:
        train_arms(plan, tmp_path, runner, plan.seeds)
    one, again = (plan.folder(tmp_path, arm, SEEDS[0]) for arm in arms)
    check(one, again, plan.folder(tmp_path, arms[0], SEEDS[1]), tmp_path / "checkpoints")


@pytest.mark.slow
def test_seeds_of_a_sweep_differ_and_repeat(looking: None, dataset: Path, model: Path, tmp_path: Path) -> None:
    """A third run with seed 0 differs in an option that has no part in the start."""
    base = {**OPTIONS, "dataset": str(dataset), "model_name": str(model), "engine": "local", "learning_rate": 1e-3}
    base |= {"checkpoints": str(tmp_path / "checkpoints"), "env_options": "prompt=short"}
    Sweep("sft", {"seed": ["0", "1"], "num_epochs": ["1", "2"]}, tmp_path, base).run(Console(quiet=True))
    folders = [tmp_path / f"seed={seed}__num_epochs={epochs}" for seed, epochs in ((0, 1), (0, 2), (1, 1))]
    check(*folders, tmp_path / "checkpoints")
