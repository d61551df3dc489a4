"""Training the runs of an experiment, each continued from where it stopped, in a folder that belongs to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chz
from rich.console import Console

from ...datasets.dataset_folder import refuse_foreign
from ...datasets.errors import BadInput
from ...datasets.store import load_card
from ...engine.options import AdapterKind, Quantization
from ..catalogue import RECIPES
from ..kit.config import RecipeConfig
from ..kit.engines import open_engine
from ..monitoring.progress import training_progress
from ..monitoring.record import read_run_record


def is_resumed(out: Path, mark: str, settings: Mapping[str, Any], remedy: str, besides: Iterable[str] = ()) -> bool:
    """Whether a folder holds an experiment with these settings already, as its file `mark` says.

    Parameters
    ----------
    out : Path
    mark : str
        Name of the JSON file in which an experiment keeps its settings.
    settings : mapping
    remedy : str
        What the user can do, besides choosing another folder, if the settings differ.
    besides : iterable of str
        Names that may be in the folder before `mark` is.

    Raises
    ------
    BadInput
        If the folder holds an experiment with other settings, or other files.
    """
    if not (out / mark).is_file():
        refuse_foreign(out, mark, besides)
        return False
    earlier, ours = json.loads((out / mark).read_text()), json.loads(json.dumps(settings))
    # Long settings, such as the arms of a study, are named without their value.
    differing = [
        name if isinstance(value, (list, dict)) else f"{name}={earlier.get(name)!r}"
        for name, value in ours.items()
        if earlier.get(name) != value
    ]
    if differing:
        raise BadInput(f"{out} has {mark} with other {', '.join(differing)}; choose another --out, or {remedy}")
    return True


def is_finished(folder: Path, cfg: RecipeConfig) -> bool:
    """Whether a run with these options has finished in `folder`."""
    if not (folder / "run.json").is_file():
        return False
    record, config = read_run_record(folder), json.loads(json.dumps(chz.asdict(cfg), default=str))
    return record.get("status") == "finished" and record["config"] == config


def steps_of(cfg: RecipeConfig) -> int:
    """Updates that a run makes: `max_steps`, or epochs over the training rows."""
    if (steps := getattr(cfg, "max_steps", None)) is not None:
        return steps
    rows = load_card(cfg.dataset)["splits"]["train"]["papers"]
    return cfg.num_epochs * (min(cfg.rows or rows, rows) // cfg.batch_size)  # pyright: ignore[reportAttributeAccessIssue]


class Runner(ExitStack):
    """Trains runs one after the other. An engine stays open until a run needs another one, or the context is left.

    Parameters
    ----------
    console : Console
        Where progress is drawn.
    engine : str or None
        As in `open_engine`; a run whose options name an engine uses that one.
    announce : bool
        Print a line when a run is finished.
    """

    def __init__(self, console: Console, engine: str | None = None, announce: bool = True):
        super().__init__()
        self.console, self.engine, self.announce = console, engine, announce
        self._settings: tuple[Any, ...] | None = None

    def open(self, checkpoints: Path) -> None:
        """Make an engine that samples the one in use. Any engine samples from adapters of any kind."""
        self._open(self.engine, str(checkpoints.absolute()))

    def _open(
        self, choice: str | None, checkpoints: str, adapter: AdapterKind = "lora", quantize: Quantization = "none"
    ) -> None:
        # The seeds of first weights and samples come with the runs.
        settings = (choice, checkpoints, adapter, quantize)
        if settings != self._settings:
            self.close()
            self.enter_context(open_engine(choice, checkpoints, adapter=adapter, quantize=quantize))
            self._settings = settings

    def train(self, recipe: str, cfg: RecipeConfig, title: str, position: str = "") -> None:
        """Train a run, or continue it; nothing is done for one that has finished with the same options.

        Parameters
        ----------
        recipe : str
            A name of `RECIPES`.
        cfg : RecipeConfig
        title : str
            For the progress bar and the closing line.
        position : str
            Such as ``"2/6 "``, before the title in the progress bar.
        """
        folder, note = Path(cfg.log_path), " [dim](done before)[/dim]"
        if not is_finished(folder, cfg):
            note = ""
            self._open(cfg.engine or self.engine, cfg.checkpoints, cfg.adapter, cfg.quantize)
            with training_progress(f"{position}{title}", folder, steps_of(cfg), self.console):
                RECIPES[recipe].run(cfg)
        if self.announce:
            self.console.print(f"[green]✓[/green] {title}{note}")
