"""Arms, what they start from, and options given on the command line."""

import json
from pathlib import Path

import pytest

from scisci_gym.recipes.experiments.plan import StudyPlan, arms_for, chosen_arms, with_options

TINY = arms_for("no/such/model", synthetic=True)


def test_arms_bring_along_what_they_start_from() -> None:
    assert [arm.name for arm in chosen_arms(TINY, ["sft_rl"])] == ["sft", "sft_rl"]
    assert [arm.name for arm in chosen_arms(TINY, ["rl", "base"])] == ["base", "format", "rl"]
    with pytest.raises(ValueError, match="ppo"):
        chosen_arms(TINY, ["ppo"])


def test_every_start_is_trained_before_it_is_needed() -> None:
    for arms in (
        TINY,
        arms_for("no/such/model", synthetic=False),
        arms_for("meta-llama/Llama-3.1-8B", synthetic=False),
    ):
        seen: set[str] = set()
        for arm in arms:
            assert arm.start is None or arm.start in seen
            seen.add(arm.name)


def test_a_model_that_the_cookbook_knows_starts_rl_from_the_base_model() -> None:
    arms = {arm.name: arm for arm in arms_for("meta-llama/Llama-3.1-8B", synthetic=False)}
    assert arms["rl"].start is None
    assert "format" not in arms
    assert "learning_rate" not in arms["rl"].options, "the cookbook's rate"


@pytest.mark.parametrize(
    ("argument", "message"),
    [("rl.max_step=3", "max_step"), ("ppo.max_steps=3", "ppo"), ("max_steps=3", "rl.max_steps"), ("base.x=1", "base")],
)
def test_options_that_no_arm_has_are_explained(argument: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_options(TINY, [argument])


def test_configurations_are_those_of_the_recipes(tmp_path: Path) -> None:
    arms = with_options(TINY, ["rl.max_steps=7", "rl.balance_labels=equal"])
    plan = StudyPlan(dataset="d", model_name="m", arms=arms, env_options="prompt=short", seeds=(5,))
    cfg = plan.config(tmp_path, plan.arm("rl"), 5)
    assert (cfg.max_steps, cfg.balance_labels, cfg.seed, cfg.env_options) == (7, "equal", 5, "prompt=short")
    assert cfg.load_checkpoint_path == str(plan.folder(tmp_path, plan.arm("format"), 5))
    assert plan.config(tmp_path, plan.arm("sft"), 5).load_checkpoint_path is None


def test_a_plan_is_json_and_the_same_after_a_round_trip() -> None:
    plan = StudyPlan(dataset="d", model_name="m", arms=TINY)
    once = json.loads(json.dumps(plan.to_json()))
    assert once == json.loads(json.dumps(plan.to_json()))
    assert [arm["name"] for arm in once["arms"]] == [arm.name for arm in TINY]
