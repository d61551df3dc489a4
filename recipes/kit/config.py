"""Options that every recipe has."""

from __future__ import annotations

import os
from typing import Any

import chz
from tinker_cookbook import cli_utils

from .engines import Adapter, Quantize
from .env_options import parse_options
from .models import learning_rate_for, renderer_name_for


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
