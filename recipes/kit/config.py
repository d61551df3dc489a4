"""Options that every recipe has."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import chz
from tinker_cookbook import cli_utils, hyperparam_utils, model_info
from tinker_cookbook.exceptions import TinkerCookbookError

from ...envs.registry import spec
from ...envs.training.groups import renderer_name_for
from .engines import Adapter, Quantize


def _folder(config: Any, value: str) -> str:
    """A folder by its absolute path, so that its run can be used from any working directory."""
    return value if "://" in value else os.path.abspath(value)


def folder_or_name(config: Any, value: str | None) -> str | None:
    """A folder that is there by its absolute path; a name, such as a model's, as it is."""
    return os.path.abspath(value) if value and os.path.isdir(value) else value


@chz.chz
class RecipeConfig:
    """Options of every recipe; each field is a ``name=value`` argument. Folders are stored by their absolute path."""

    # What to learn
    env: str = "disruption-v0"
    env_options: str = ""
    dataset: str = chz.field(munger=_folder)
    # Who learns
    model_name: str = chz.field(munger=folder_or_name)
    renderer_name: str | None = None
    # A tinker:// path, or the log_path of a run, whose best checkpoint on validation (or last one) is the start.
    load_checkpoint_path: str | None = chz.field(default=None, munger=folder_or_name)
    lora_rank: int = 32
    # Local engine only. dora: weight-decomposed LoRA; with quantize=4bit (CUDA, bitsandbytes) it is QDoRA.
    adapter: Adapter = "lora"
    quantize: Quantize = "none"
    learning_rate: float | None = None
    seed: int = 0
    # Longest answer, in training and validation
    max_tokens: int = 1024
    # Validation papers decide which checkpoint counts: None for all of them, 0 for no validation.
    validation_examples: int | None = 256
    eval_every: int = 10
    save_every: int = 10
    # What the run is to find out, for its EXPERIMENT.md; by default a sentence about the recipe and the environment.
    question: str = ""
    # Where, and what is kept
    log_path: str = chz.field(munger=_folder)
    engine: str | None = None
    checkpoints: str = chz.field(default="runs/checkpoints", munger=_folder)
    # Weights & Biases, as the cookbook has it: needs `pip install wandb` and WANDB_API_KEY in the environment.
    wandb_project: str | None = None
    wandb_name: str | None = None
    behavior_if_log_dir_exists: cli_utils.LogdirBehavior = "resume"

    def renderer(self) -> str:
        """Name of the renderer; see `renderer_name_for`."""
        return renderer_name_for(self.model_name, self.renderer_name)

    def options(self) -> dict[str, Any]:
        """Options of the environment; see `parse_options`."""
        return parse_options(self.env, self.env_options)

    def rate(self) -> float:
        """The learning rate; see `learning_rate_for`."""
        return learning_rate_for(self.model_name, self.learning_rate)


def parse_options(env_id: str, text: str) -> dict[str, Any]:
    """Keyword options of an environment.

    Values are read as JSON where they are JSON (true, 3, 0.5) and as text otherwise.

    Raises
    ------
    ValueError
        If the environment has no such option, refuses its value, or a part is not of the form ``name=value``.

    Examples
    --------
    >>> parse_options("disruption-v0", "prompt=short,references=true")
    {'prompt': 'short', 'references': True}
    """
    options: dict[str, Any] = {}
    known = spec(env_id).option_names()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"environment options are name=value pairs separated by commas, got {part!r}")
        if name not in known:
            raise ValueError(f"{env_id} has no option {name!r}; it has {', '.join(known)}")
        options[name] = _value(value)
    spec(env_id).check_options(options)
    return options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


__all__ = ["is_known_model", "learning_rate_for", "renderer_name_for"]


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
    """Learning rate of LoRA training: the one asked for, or the cookbook's `get_lr` where it knows the model.

    Raises
    ------
    ValueError
        If the model is not known and no rate is given.
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
