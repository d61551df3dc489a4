"""From options to a training run, the same for all recipes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import chz
from tinker_cookbook import cli_utils

from ...engine import run_seed
from ..monitoring.recorded import recorded_run
from .config import RecipeConfig
from .engines import EngineTrouble, engine_kind, open_engine
from .preflight import one_line, preflight, troubles_in_one_line
from .validation import validate_checkpoints

Config = TypeVar("Config", bound=RecipeConfig)


@dataclass(frozen=True)
class Recipe(Generic[Config]):
    """A way to train: ``scisci-gym train NAME`` with the options of `config`.

    `build` makes the cookbook's configuration of the options: it reads and checks, and starts nothing. `train` runs the
    cookbook's loop with both.
    """

    name: str
    config: type[Config]
    build: Callable[[Config], Any]
    train: Callable[[Config, Any], Awaitable[None]]

    def checked(self, cfg: Config) -> Any:
        """`build`, with one line for a model or tokenizer that cannot be read."""
        try:
            return self.build(cfg)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise EngineTrouble(f"model_name={cfg.model_name}: {one_line(str(error))}") from error

    def run(self, cfg: Config) -> None:
        """Train on the engine that is open, then validate the checkpoints that the loop did not validate.

        Raises `EngineTrouble` if the engine cannot begin, or fails on the way.
        """
        built = self.checked(cfg)
        engine = preflight(cfg.model_name)
        cli_utils.check_log_dir(cfg.log_path, behavior_if_exists=cfg.behavior_if_log_dir_exists)
        options = (f"  {name}={value}" for name, value in sorted(chz.asdict(cfg).items()))
        print("\n".join([f"recipe {self.name}:", *options]), flush=True)

        async def train() -> None:
            await self.train(cfg, built)
            await validate_checkpoints(cfg)

        # Engines may be shared by runs: first weights and samples are those of the run's own seed.
        with run_seed(cfg.seed), recorded_run(self.name, cfg, engine=engine), troubles_in_one_line(cfg.log_path):
            asyncio.run(train())

    def main(self, cfg: Config) -> None:
        """Open the engine and train. A configuration that cannot work is refused before anything starts."""
        self.checked(cfg)
        kind = engine_kind(cfg.engine, cfg.model_name)
        with open_engine(kind, cfg.checkpoints, cfg.seed, **cfg.local_options()):
            self.run(cfg)
