"""What is written around a run, whatever the recipe: its record before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .run_record import write_run_record


@contextmanager
def recorded_run(recipe: str, cfg: Any) -> Iterator[None]:
    """While the block trains, keep the run's folder telling what it is and how it goes.

    Parameters
    ----------
    recipe : str
    cfg : RecipeConfig
        The resolved configuration; `log_path` is the run's folder.
    """
    write_run_record(cfg.log_path, recipe, cfg, cfg.dataset)
    yield
