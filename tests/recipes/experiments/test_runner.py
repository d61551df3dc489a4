"""An experiment's folder is taken up with the same settings only, and a run knows how many steps it will make."""

import json
from pathlib import Path

import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.recipes.experiments.demo import DemoSettings, demo_plan
from scisci_gym.recipes.experiments.runner import config_of, is_resumed, steps_of

SETTINGS = {"seed": 0, "works": None, "arms": [{"name": "rl"}]}


def test_an_experiment_is_resumed_with_its_own_settings(tmp_path: Path) -> None:
    assert not is_resumed(tmp_path / "new", "plan.json", SETTINGS, "delete it")
    (tmp_path / "plan.json").write_text(json.dumps(SETTINGS))
    assert is_resumed(tmp_path, "plan.json", SETTINGS, "delete it")


def test_an_experiment_of_an_earlier_version_is_resumed_with_what_it_could_not_say(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(SETTINGS))
    assert is_resumed(tmp_path, "plan.json", {**SETTINGS, "metric": "f1"}, "delete it", later={"metric": "f1"})
    with pytest.raises(BadInput, match=r"other metric='f1'"):
        is_resumed(tmp_path, "plan.json", {**SETTINGS, "metric": "mcc"}, "delete it", later={"metric": "f1"})


def test_other_settings_are_named_with_the_values_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(SETTINGS))
    with pytest.raises(BadInput, match=r"other seed=0, arms; choose another --out, or delete it"):
        is_resumed(tmp_path, "plan.json", {**SETTINGS, "seed": 1, "arms": []}, "delete it")


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match=r"thesis\.txt"):
        is_resumed(tmp_path, "plan.json", SETTINGS, "delete it", besides=["data"])


@pytest.mark.parametrize(
    ("recipe", "options", "steps"),
    [
        ("rl", {"max_steps": 7}, 7),
        ("sft", {"num_epochs": 3, "batch_size": 32}, 3 * 3),
        ("sft", {"num_epochs": 3, "batch_size": 32, "rows": 64}, 3 * 2),
        ("dpo", {"num_epochs": 2, "batch_size": 50}, 2 * 2),
    ],
)
def test_steps_are_those_asked_for_or_whole_batches_of_every_epoch(
    tmp_path: Path, recipe: str, options: dict, steps: int
) -> None:
    """The training split has 100 papers: 3 batches of 32, or 2 of 50."""
    (tmp_path / "card.json").write_text(json.dumps({"splits": {"train": {"papers": 100}}}))
    folders = {"dataset": str(tmp_path), "model_name": "m", "log_path": str(tmp_path / "run")}
    assert steps_of(config_of(recipe, {**folders, **options})) == steps


def test_the_runs_of_the_demo_have_fixed_options(tmp_path: Path) -> None:
    """What was tuned, and published with results: rates, steps, groups, KL penalties and starts."""
    synthetic, real = (demo_plan(tmp_path, DemoSettings(seed=4, works=works)) for works in (None, "works"))
    start, sft, rl = (synthetic.config(tmp_path, arm, 4) for arm in synthetic.arms)
    assert (start.answers, start.rows, start.learning_rate, start.num_epochs) == ("random", 480, 5e-4, 1)
    assert (sft.answers, sft.rows, sft.learning_rate, sft.num_epochs, sft.batch_size) == ("gold", None, 2e-3, 2, 32)
    assert (rl.learning_rate, rl.max_steps, rl.groups_per_batch, rl.group_size) == (2e-3, 48, 12, 8)
    assert (rl.kl_penalty_coef, rl.eval_every, rl.save_every) == (0.1, 12, 12)
    assert rl.load_checkpoint_path == str(tmp_path / "start")
    for cfg in (start, sft, rl):
        assert (cfg.seed, cfg.lora_rank, cfg.validation_examples, cfg.env_options) == (4, 16, 256, "prompt=short")
        assert cfg.checkpoints == str(tmp_path / "checkpoints")
    language = demo_plan(tmp_path, DemoSettings(works="works", model="smollm2"))
    assert language.model_name == str(tmp_path / "model")
    assert demo_plan(tmp_path, DemoSettings(model=str(tmp_path))).model_name == str(tmp_path)
    start, sft, rl = (language.config(tmp_path, arm, 4) for arm in language.arms)
    assert (start.answers, start.rows, sft.answers, sft.rows, sft.num_epochs) == ("random", 480, "gold", 1600, 1)
    assert (rl.learning_rate, rl.max_steps, rl.groups_per_batch, rl.max_tokens) == (1e-4, 20, 8, 24)
    from_sft = real.config(tmp_path, real.arm("rl"), 4)
    assert real.config(tmp_path, real.arm("sft"), 4).num_epochs == 8
    assert (from_sft.learning_rate, from_sft.max_steps, from_sft.groups_per_batch) == (3e-4, 60, 32)
    assert (from_sft.kl_penalty_coef, from_sft.load_checkpoint_path) == (0.0, str(tmp_path / "sft"))
