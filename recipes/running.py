"""What all recipes share: the options every one of them has, and the road from options to a training run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import chz
from tinker_cookbook import cli_utils

from .engines import open_engine
from .monitoring.recorded import recorded_run


@chz.chz
class RecipeConfig:
    """Options of every recipe; each field is a ``name=value`` argument."""

    # What to learn
    env: str = "disruption-v0"
    env_options: str = ""
    dataset: str
    # Who learns
    model_name: str
    renderer_name: str | None = None
    # A tinker:// path, or the log_path of the run to start from.
    load_checkpoint_path: str | None = None
    lora_rank: int = 32
    learning_rate: float | None = None
    seed: int = 0
    # Where, and what is kept
    log_path: str
    engine: str | None = None
    checkpoints: str = "runs/checkpoints"
    wandb_project: str | None = None
    wandb_name: str | None = None
    behavior_if_log_dir_exists: cli_utils.LogdirBehavior = "resume"


Config = TypeVar("Config", bound=RecipeConfig)


@dataclass(frozen=True)
class Recipe(Generic[Config]):
    """A way to train.

    Parameters
    ----------
    name : str
        As in ``scisci-gym train NAME``.
    about : str
        One line for help texts.
    config : type
        Its options, a `RecipeConfig`.
    build : callable
        Options -> the cookbook's configuration. Reads, checks, starts nothing.
    train : callable
        The cookbook's configuration -> training, awaited.
    """

    name: str
    about: str
    config: type[Config]
    build: Callable[[Config], Any]
    train: Callable[[Any], Awaitable[None]]

    def run(self, cfg: Config) -> None:
        """Train inside an engine that is open already."""
        built = self.build(cfg)
        cli_utils.check_log_dir(cfg.log_path, behavior_if_exists=cfg.behavior_if_log_dir_exists)
        print(self.describe(cfg), flush=True)
        with recorded_run(self.name, cfg):
            asyncio.run(_awaited(self.train(built)))

    def main(self, cfg: Config) -> None:
        """Open the engine and train. A configuration that cannot work is refused before anything starts."""
        self.build(cfg)
        with open_engine(cfg.engine, cfg.checkpoints, cfg.seed):
            self.run(cfg)

    def describe(self, cfg: Config) -> str:
        """The resolved options, one a line, as they would be given on the command line."""
        options = chz.asdict(cfg)
        return "\n".join([f"recipe {self.name}:", *(f"  {name}={value}" for name, value in sorted(options.items()))])


async def _awaited(training: Awaitable[None]) -> None:
    await training
