"""Options that every recipe has, and what follows from them: environment options, renderer, learning rate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import chz
from tinker_cookbook import cli_utils, hyperparam_utils, model_info
from tinker_cookbook.exceptions import TinkerCookbookError

from ...datasets.errors import read_json
from ...datasets.store import load_card
from ...envs.kit.renderers import renderer_name_for
from ...envs.registry import spec
from ..monitoring.record import with_folders
from .checkpoints import state_path
from .engines import EngineConfig, folder


def folder_or_name(config: Any, value: str | None) -> str | None:
    """A folder that exists by its absolute path; a name, such as a model's, unchanged."""
    return os.path.abspath(value) if value and os.path.isdir(value) else value


MAX_TOKENS = 1024
"""The largest number of tokens in an answer, where none is given."""
COUNTS = (
    "batch_size group_size groups_per_batch lora_rank max_length max_steps max_tokens num_epochs num_minibatches "
    "num_substeps pass_rate_attempts rollout_workers rollouts_per_example rows"
).split()
"""Options of recipes that are numbers from 1 on, or None."""
TINY_REPORT = "init_report.json"


def tiny_notes(model_name: str) -> dict[str, Any] | None:
    """What the folder of a tiny model, of `scisci-gym engine init-model`, says about itself; None for any other model.

    That is ``env`` and ``env_options``, which it was made for (older models do not say), and ``longest_answer`` in
    tokens.
    """
    path = Path(model_name) / TINY_REPORT
    if not path.is_file():
        return None
    report = read_json(path, "make the model again")
    return {**report.get("notes", {}), "longest_answer": report.get("longest_answer", 0)}


def suited(otherwise: Any, tiny: Callable[[Any], Any], doc: str) -> Any:
    """A field whose default is `otherwise`, and for a tiny model what `tiny` makes of the other options."""

    def chosen(config: Any, value: Any) -> Any:
        if value is not None:
            return value
        return otherwise if tiny_notes(config.model_name) is None else tiny(config)

    return chz.field(default=None, munger=chosen, doc=doc)


def suited_env_options(model_name: str, env_id: str, given: str | None = None) -> str:
    """Options of the environment, as text: `given` unless it is None, or else those that a tiny model was made for, as
    far as the environment has them. Folders in `given`, as in challenger=reader:DATASET, are made absolute."""
    if given:
        return with_folders(given, lambda place: os.path.abspath(place) if os.path.isdir(place) else place)
    options = (tiny_notes(model_name) or {}).get("env_options", {}) if given is None else {}
    names = spec(env_id).option_names() if options else ()
    return ",".join(f"{name}={option}" for name, option in options.items() if name in names)


def suited_max_tokens(model_name: str, env_id: str, given: int | None = None) -> int:
    """Longest answer in tokens: `given`, or `MAX_TOKENS`, or the longest answer that a tiny model made for the
    environment has seen: it has no more to say."""
    notes = tiny_notes(model_name)
    if given is not None or notes is None or notes.get("env") != env_id:
        return MAX_TOKENS if given is None else given
    return notes["longest_answer"] + 2


@chz.chz
class RecipeConfig(EngineConfig):
    """Options of every recipe; each field is a ``name=value`` argument. Folders are stored by their absolute path."""

    # What the policy learns.
    env: str = chz.field(default="disruption-v0", doc="Environment to learn; `scisci-gym list` names them.")
    env_options: str = chz.field(
        default=None,
        munger=lambda config, value: suited_env_options(config.model_name, config.env, value),
        doc="Options of the environment, such as prompt=short,references=true; default: none, or those that a tiny "
        "model was made for.",
    )
    dataset: str = chz.field(munger=folder, doc="Folder of a dataset that `scisci-gym build` wrote.")
    # Which policy learns it.
    model_name: str = chz.field(
        munger=folder_or_name, doc="Base model: a folder with a causal LM, or a model of the service."
    )
    renderer_name: str | None = chz.field(
        default=None,
        doc="Renderer, which writes the prompts' tokens: one of the cookbook, or MODULE:NAME for one that a module "
        "registers; default: the one of the model.",
    )
    load_checkpoint_path: str | None = chz.field(
        default=None,
        munger=folder_or_name,
        doc="Where training starts: a tinker:// path, or the log_path of a run, of which it takes the best checkpoint "
        "on validation, or the last.",
    )
    lora_rank: int = suited(32, lambda _: 16, "Rank of the adapters; default: 32, for a tiny model 16.")
    learning_rate: float | None = suited(
        None,
        lambda _: 2e-3,
        "Learning rate of Adam; default: that of the cookbook for the model, for a tiny model 0.002.",
    )
    seed: int = chz.field(default=0, doc="Seed of the first adapter weights, the order of papers and the samples.")
    max_tokens: int = chz.field(
        default=None,
        munger=lambda config, value: suited_max_tokens(config.model_name, config.env, value),
        doc="Longest answer in tokens, in training and validation; default: 1024, or what a tiny model needs.",
    )
    validation_examples: int | None = chz.field(
        default=256,
        doc="Number of validation papers that checkpoints are scored on; None for all, 0 for no validation.",
    )
    eval_every: int = chz.field(
        default=10, doc="Updates between two validations; sft validates its checkpoints when it has ended."
    )
    choose_by: Literal["macro_f1", "mcc"] | None = chz.field(
        default=None,
        doc="Validation score that the best checkpoint is chosen by: macro_f1 or mcc; default: macro_f1, or the mean "
        "reward where a forecast is asked for.",
    )
    save_every: int = chz.field(default=10, doc="Updates between two checkpoints.")
    question: str = chz.field(
        default="",
        doc="Question that the run is to answer, for its EXPERIMENT.md; default: a sentence on recipe and environment.",
    )
    log_path: str = chz.field(munger=folder, doc="Folder of the run; the same command continues the run in it.")
    wandb_project: str | None = chz.field(
        default=None, doc="Project of Weights & Biases, which needs `pip install wandb` and WANDB_API_KEY."
    )
    wandb_name: str | None = chz.field(default=None, doc="Name of the run there.")
    behavior_if_log_dir_exists: cli_utils.LogdirBehavior = chz.field(
        default="resume", doc="What to do if log_path holds a run: continue it, delete it, ask, or stop."
    )

    def renderer(self) -> str:
        """Name of the renderer; see `renderer_name_for`."""
        return renderer_name_for(self.model_name, self.renderer_name)

    def options(self) -> dict[str, Any]:
        """Options of the environment that the user has set; see `parse_options`. Whoever makes environments adds those
        that follow from the training papers, by `options_of`."""
        return parse_options(self.env, self.env_options)

    def prompts(self) -> dict[str, Any]:
        """The fields of a dataset builder that say which prompts it makes."""
        return {
            "env_id": self.env,
            "dataset": self.dataset,
            "renderer_name": self.renderer(),
            "tokenizer_name": self.model_name,
            "options": self.options(),
            "seed": self.seed,
        }

    def loop(self, recipe: str) -> dict[str, Any]:
        """The fields that the configurations of all the cookbook's training loops share.

        Raises `FileNotFoundError` if the dataset, or the run to start from, does not exist, and `ValueError` if a count
        of `COUNTS` is below 1, or renderer or learning rate must be given and are not.
        """
        for name in COUNTS:
            count = getattr(self, name, None)
            if count is not None and count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}")
        load_card(self.dataset)
        return {
            "recipe_name": f"scisci_gym_{recipe}_{self.env}",
            "model_name": self.model_name,
            "renderer_name": self.renderer(),
            "load_checkpoint_path": state_path(self.load_checkpoint_path),
            "lora_rank": self.lora_rank,
            "learning_rate": learning_rate_for(self.model_name, self.learning_rate),
            "save_every": self.save_every,
            "wandb_project": self.wandb_project,
            "wandb_name": self.wandb_name,
            "log_path": self.log_path,
        }


def parse_options(env_id: str, text: str) -> dict[str, Any]:
    """Options of an environment from text such as ``prompt=short,references=true``.

    Values are read as JSON where they are JSON (true, 3, 0.5) and as text otherwise. Raises `ValueError` if the
    environment has no such option, refuses its value, or a part is not of the form ``name=value``.

    Examples
    --------
    >>> parse_options("disruption-v0", "prompt=short,references=true")
    {'prompt': 'short', 'references': True}
    """
    options: dict[str, Any] = {}
    names = spec(env_id).option_names()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"environment options are name=value pairs separated by commas, got {part!r}")
        if name not in names:
            raise ValueError(f"{env_id} has no option {name!r}; it has {', '.join(names)}")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    spec(env_id).check_options(options)
    return options


def is_known_model(model_name: str) -> bool:
    """Whether the cookbook recommends a renderer for the model, which a folder on this machine never has."""
    if Path(model_name).is_dir():
        return False
    try:
        model_info.get_recommended_renderer_name(model_name)
    except (ValueError, KeyError, TinkerCookbookError):
        return False
    return True


def learning_rate_for(model_name: str, explicit: float | None = None) -> float:
    """Learning rate of LoRA training: `explicit` if it is given, else the cookbook's `get_lr`.

    Raises `ValueError` if the cookbook does not know the model and no rate is given.
    """
    if explicit is not None:
        return explicit
    try:
        return hyperparam_utils.get_lr(model_name)
    except (NotImplementedError, ValueError, KeyError, OSError, TinkerCookbookError) as error:
        raise ValueError(
            f"no recommended learning rate for {model_name}: {error}; pass learning_rate= (2e-3 suits models of less "
            "than a million parameters, 1e-4 to 5e-4 models of some billions)"
        ) from error
