"""What a study compares: its arms, where each starts from, and how each is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import chz

from ...catalogue import RECIPES
from ...kit.config import is_known_model


@dataclass(frozen=True)
class Arm:
    """A way to come to a policy.

    Parameters
    ----------
    name : str
        Of its folder, and on the command line.
    title : str
        In tables.
    recipe : str or None
        A name of `RECIPES`; None for the base model as it is.
    start : str or None
        The arm whose chosen checkpoint it starts from; None for the base model.
    options : dict
        Options of the recipe.
    """

    name: str
    title: str
    recipe: str | None = None
    start: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def arms_for(model_name: str, made_up: bool) -> tuple[Arm, ...]:
    """The arms of a study, with training options that suit the model and the corpus.

    Parameters
    ----------
    model_name : str
        A model that the cookbook knows by name gets the cookbook's learning rates; any other is taken for a tiny one,
        which has to be taught the answer format before RL can begin.
    made_up : bool
        A synthetic corpus, where the wording is a strong sign of the label; on real text the signal is weak, and fast
        RL loses a label for good.
    """
    if is_known_model(model_name):
        return _arms(None, LARGE)
    return _arms("format", TINY_SYNTHETIC if made_up else TINY_REAL)


LARGE: dict[str, dict[str, Any]] = {
    "sft": {"num_epochs": 2, "batch_size": 32, "save_every": 25},
    "rl": {"groups_per_batch": 32, "group_size": 8, "max_steps": 100},
    "sft_rl": {"groups_per_batch": 32, "group_size": 8, "max_steps": 100, "kl_penalty_coef": 0.05},
    "dpo": {"learning_rate": 1e-5, "num_epochs": 1, "batch_size": 32, "pairs": "sampled"},
}
_TINY: dict[str, Any] = {"max_tokens": 12, "lora_rank": 16}
_FORMAT = {**_TINY, "answers": "random", "rows": 480, "learning_rate": 5e-4, "batch_size": 32, "validation_examples": 0}
TINY_SYNTHETIC: dict[str, dict[str, Any]] = {
    "format": _FORMAT,
    "sft": {**_TINY, "learning_rate": 2e-3, "num_epochs": 8, "batch_size": 32, "save_every": 50},
    "rl": {
        **_TINY,
        "learning_rate": 2e-3,
        "groups_per_batch": 16,
        "group_size": 8,
        "max_steps": 120,
        "kl_penalty_coef": 0.1,
    },
    "sft_rl": {**_TINY, "learning_rate": 5e-4, "groups_per_batch": 16, "group_size": 8, "max_steps": 60},
    "dpo": {**_TINY, "learning_rate": 2e-3, "num_epochs": 4, "batch_size": 32, "dpo_beta": 0.1},
}
# On real text accuracy and macro-F1 part ways: a policy that is paid for being right stops naming the middle label. So
# RL on top of SFT goes slowly, and the shares of the labels follow its answers. Not so from the format alone: greedy
# answers of a policy that is nearly uniform are all the same label, and shares that follow them swing (tried).
TINY_REAL: dict[str, dict[str, Any]] = {
    "format": _FORMAT,
    "sft": {**_TINY, "learning_rate": 1e-3, "num_epochs": 8, "batch_size": 32, "save_every": 32},
    "rl": {
        **_TINY,
        "learning_rate": 1e-3,
        "groups_per_batch": 32,
        "group_size": 8,
        "max_steps": 60,
        "kl_penalty_coef": 0.1,
        "balance_labels": "equal",
    },
    "sft_rl": {
        **_TINY,
        "learning_rate": 1e-4,
        "groups_per_batch": 32,
        "group_size": 8,
        "max_steps": 60,
        "balance_labels": "adaptive",
        "eval_every": 5,
        "save_every": 5,
    },
    "dpo": {**_TINY, "learning_rate": 5e-4, "num_epochs": 2, "batch_size": 32, "dpo_beta": 0.1},
}


def _arms(taught: str | None, options: Mapping[str, Mapping[str, Any]]) -> tuple[Arm, ...]:
    base = "the answer format" if taught else "the base model"
    arms = [Arm("base", "base model")]
    if taught:
        arms.append(Arm(taught, "answer format only", "sft", None, options[taught]))
    return (
        *arms,
        Arm("sft", "SFT on the labels", "sft", None, options["sft"]),
        Arm("rl", f"RL from {base}", "rl", taught, options["rl"]),
        Arm("sft_rl", "SFT, then RL", "rl", "sft", options["sft_rl"]),
        Arm("dpo", f"DPO from {base}", "dpo", taught, options["dpo"]),
    )


@dataclass(frozen=True)
class StudyPlan:
    """A study. Two studies with the same plan train the same runs.

    Parameters
    ----------
    dataset, model_name, env, env_options : str
    arms : tuple of Arm
        In the order in which they are trained.
    seeds : tuple of int
        Every trained arm is trained once for each.
    split : str
        Papers that the study is about; checkpoints are chosen on validation whatever it is.
    flip_examples : int
        Papers of the adversarial evaluation; 0 leaves it out.
    validation_examples, max_examples : int or None
        Papers at most that checkpoints are chosen on, and that arms are compared on; None for all.
    """

    dataset: str
    model_name: str
    arms: tuple[Arm, ...]
    env: str = "disruption-v0"
    env_options: str = ""
    renderer_name: str | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    split: str = "test"
    flip_examples: int = 300
    validation_examples: int | None = None
    max_examples: int | None = None

    @property
    def trained(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.arms if arm.recipe)

    def arm(self, name: str) -> Arm:
        """The arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def chosen_arms(arms: Sequence[Arm], names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms that are asked for, and those that they start from.

    Raises
    ------
    ValueError
        If there is no arm of a name.
    """
    known = {arm.name: arm for arm in arms}
    wanted: set[str] = set()
    for name in names:
        if name not in known:
            raise ValueError(f"a study has no arm {name!r}; it has {', '.join(known)}")
        at: str | None = name
        while at is not None:
            wanted.add(at)
            at = known[at].start
    return tuple(arm for arm in arms if arm.name in wanted)


def with_options(arms: Sequence[Arm], arguments: Sequence[str]) -> tuple[Arm, ...]:
    """Arms with options from ``ARM.option=value`` arguments.

    Raises
    ------
    ValueError
        If an argument is of another form, or names an arm or an option that there is not.
    """
    changed = {arm.name: dict(arm.options) for arm in arms}
    for argument in arguments:
        path, equals, value = argument.partition("=")
        arm, dot, option = path.partition(".")
        if not equals or not dot:
            raise ValueError(f"options of an arm are ARM.option=value, such as rl.max_steps=60; got {argument!r}")
        recipe = next((known.recipe for known in arms if known.name == arm), None)
        if recipe is None:
            trained = ", ".join(known.name for known in arms if known.recipe)
            raise ValueError(f"{argument!r}: no trained arm {arm!r}; there are {trained}")
        fields = chz.chz_fields(RECIPES[recipe].config)
        if option not in fields:
            raise ValueError(f"{argument!r}: {recipe} has no option {option!r}; it has {', '.join(sorted(fields))}")
        changed[arm][option] = value
    return tuple(Arm(arm.name, arm.title, arm.recipe, arm.start, changed[arm.name]) for arm in arms)


def run_folder(out: Path, arm: Arm, seed: int) -> Path:
    """Folder of the run of an arm with a seed."""
    return out / f"seed{seed}" / arm.name
