"""Training the runs of an experiment, each continued from where it stopped, in a folder that belongs to it."""

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import chz
from chz.blueprint import InvalidBlueprintArg, MissingBlueprintArg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ...datasets.dataset_folder import refuse_foreign
from ...datasets.errors import BadInput, read_json
from ...datasets.store import load_card
from .. import distill, dpo, rl, sft
from ..kit.compat import ignore_deprecated_calls
from ..kit.config import RecipeConfig
from ..kit.engines import LOCAL_DEFAULTS, engine_kind, open_engine
from ..kit.recipe import Recipe
from ..monitoring.metrics import NLL, REWARD, VALIDATION, Measure, MetricsLog, finite, progress
from ..monitoring.record import read_run_record
from ..monitoring.summary import validation_measure

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (rl.RECIPE, sft.RECIPE, dpo.RECIPE, distill.RECIPE)}
"""The recipes by name."""


def config_of(recipe: str, options: Mapping[str, Any]) -> RecipeConfig:
    """Options of a recipe; values that are text are read as the recipe's command line reads them.

    Raises `BadInput` if the recipe has no such option, one that it needs is missing, or a value cannot be read.
    """
    for name in options:
        require_option(recipe, name)
    blueprint = chz.Blueprint(RECIPES[recipe].config)
    blueprint = blueprint.apply({name: value for name, value in options.items() if not isinstance(value, str)})
    try:
        return blueprint.make_from_argv(
            [f"{name}={value}" for name, value in options.items() if isinstance(value, str)]
        )
    except (InvalidBlueprintArg, MissingBlueprintArg) as error:
        what = str(error).splitlines()[0].rstrip(".")
        raise BadInput(f"{what}; `scisci-gym train {recipe} --help-options` lists the options") from error


def require_option(recipe: str, option: str, argument: str | None = None) -> None:
    """Raise a ValueError that names a similar option of a recipe, or all, unless it has this one; `argument` is what
    was given."""
    fields = chz.chz_fields(RECIPES[recipe].config)
    if option not in fields:
        given = f"{argument!r}: " if argument else ""
        similar = get_close_matches(option, fields, 1)
        hint = f"did you mean {similar[0]}?" if similar else f"it has {', '.join(sorted(fields))}"
        raise ValueError(f"{given}{recipe} has no option {option!r}; {hint}")


def is_resumed(
    out: Path,
    mark: str,
    settings: Mapping[str, Any],
    remedy: str,
    besides: Iterable[str] = (),
    later: Mapping[str, Any] | None = None,
) -> bool:
    """Whether a folder holds an experiment with these settings already, as its file `mark` says.

    If the settings differ, `remedy` is what the user can do besides choosing another folder. The names `besides` may be
    in the folder before `mark` is. `later` are the values of settings that a file of an earlier version does not have.
    Raises `BadInput` if the folder holds an experiment with other settings, or other files.
    """
    if not (out / mark).is_file():
        refuse_foreign(out, mark, besides)
        return False
    earlier = {**(later or {}), **read_json(out / mark, f"choose another --out, or {remedy}")}
    ours = json.loads(json.dumps(settings))
    # Long settings, such as the arms of a study, are named without their value.
    differing = [
        name if isinstance(value, (list, dict)) else f"{name}={earlier.get(name)!r}"
        for name, value in ours.items()
        if earlier.get(name) != value
    ]
    if differing:
        raise BadInput(f"{out} has {mark} with other {', '.join(differing)}; choose another --out, or {remedy}")
    return True


def require_same_data(
    out: Path, dataset: str | Path, remedy: str, mark: str | None = None, runs: Iterable[Path] = ()
) -> str:
    """The content hash of a dataset, which an experiment on it writes into its file `mark`.

    Raises `BadInput` if the experiment in `out` was begun when the dataset had another content. `mark` says so or,
    where it is of an earlier version or None, the records of those `runs` that are there. `remedy` is what the user can
    do besides building the dataset as it was.
    """
    now = load_card(dataset, {"content_hash": str})["content_hash"]
    begun = read_json(out / mark, remedy).get("content_hash") if mark is not None and (out / mark).is_file() else None
    records = (read_run_record(run) for run in runs if (run / "run.json").is_file()) if begun is None else ()
    hashes = [begun, *(record.get("dataset", {}).get("content_hash") for record in records)]
    for other in hashes:
        if other not in (None, now):
            raise BadInput(
                f"{out} was begun with a dataset of hash {other[:12]}, and {dataset} has {now[:12]} now; {remedy}, or "
                "build the dataset again as it was"
            )
    return now


def is_finished(folder: Path, cfg: RecipeConfig) -> bool:
    """Whether a run with these options has finished in `folder`."""
    if not (folder / "run.json").is_file():
        return False
    record, config = read_run_record(folder), json.loads(json.dumps(chz.asdict(cfg), default=str))
    # A run of an earlier version has not recorded options that came later: it had their defaults.
    later = {**LOCAL_DEFAULTS, "choose_by": None, **({"rows": None} if "rows" in config else {})}
    return record.get("status") == "finished" and {**later, **record["config"]} == config


def steps_of(cfg: RecipeConfig) -> int:
    """Updates that a run makes: `max_steps`, or epochs over the training rows."""
    if (steps := getattr(cfg, "max_steps", None)) is not None:
        return steps
    rows = load_card(cfg.dataset)["splits"]["train"]["papers"]
    return cfg.num_epochs * (min(cfg.rows or rows, rows) // cfg.batch_size)  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def training_progress(
    label: str, log_path: str | Path, steps: int, console: Console, validation: Measure = VALIDATION
) -> Iterator[None]:
    """While the block trains for so many steps, send what it prints to `console.log` in the run's folder, and draw a
    bar from its `metrics.jsonl` on `console`. Where that is no terminal, a line is printed for every tenth of the
    steps."""
    folder = Path(log_path)
    beside = {"reward": REWARD.key, validation.title: validation.key, "loss": NLL.key}
    folder.mkdir(parents=True, exist_ok=True)
    # A console writes to whatever the standard streams are at the time, which would be the log.
    shown = Console(file=console.file, force_terminal=console.is_terminal, quiet=console.quiet, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    handlers = list(logging.getLogger().handlers)
    stop = threading.Event()
    with (
        (folder / "console.log").open("a") as log,
        Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar,
    ):
        task, metrics = bar.add_task(label, total=steps), MetricsLog(folder)

        def tenths(made: int) -> int:
            return 10 * made // max(1, steps)

        def show(told: int) -> int:
            rows = metrics.rows()
            latest = [f"{name} {points[-1][1]:.2f}" for name, key in beside.items() if (points := finite(rows, key))]
            text = "  ".join(filter(None, [label, ", ".join(latest)]))
            made, _ = progress(rows)
            bar.update(task, completed=made, description=text)
            if tenths(made) > told and not shown.is_terminal:
                shown.print(f"{text}  {made}/{steps}", soft_wrap=True)
            return max(tenths(made), told)

        def follow(told: int) -> None:
            while not stop.wait(0.5):
                told = show(told)
            show(told)

        # Steps of an earlier process are not told again.
        follower = threading.Thread(target=follow, args=[tenths(progress(metrics.rows())[0])], daemon=True)
        follower.start()
        try:
            with redirect_stdout(log), redirect_stderr(log):
                yield
        finally:
            stop.set()
            follower.join()
            # The cookbook replaced the root handlers by ones that write to the redirected streams.
            logging.getLogger().handlers[:] = handlers


class Runner(ExitStack):
    """Trains runs one after the other and draws their progress. An engine stays open until a run needs another one, or
    the context is left.

    `engine` is as in `open_engine`; a run whose options name an engine uses that one. With `announce`, every finished
    run prints a line.
    """

    def __init__(self, console: Console, engine: str | None = None, announce: bool = True):
        super().__init__()
        self.console, self.engine, self.announce = console, engine, announce
        self._settings: tuple[Any, ...] | None = None
        ignore_deprecated_calls()

    def open(self, checkpoints: Path, model: str) -> None:
        """Make an engine that samples from `model` and its adapters the one in use. Any engine samples from adapters
        of any kind.
        """
        self._open(engine_kind(self.engine, model), str(checkpoints.absolute()))

    def _open(self, kind: str, checkpoints: str, **local: Any) -> None:
        # The seeds of first weights and samples come with the runs.
        settings = (kind, checkpoints, local)
        if settings != self._settings:
            self.close()
            self.enter_context(open_engine(kind, checkpoints, **local))
            self._settings = settings

    def train(self, recipe: str, cfg: RecipeConfig, title: str, position: str = "") -> None:
        """Train a run, or continue it; nothing is done for one that has finished with the same options.

        `recipe` is a name of `RECIPES`, `position` (such as ``"2/6 "``) stands before the title in the progress bar.
        """
        folder, note = Path(cfg.log_path), " [dim](done before)[/dim]"
        if not is_finished(folder, cfg):
            note = ""
            kind = engine_kind(cfg.engine or self.engine, cfg.model_name)
            self._open(kind, cfg.checkpoints, **cfg.local_options())
            validation = validation_measure(cfg.env, cfg.choose_by)
            with training_progress(f"{position}{title}", folder, steps_of(cfg), self.console, validation):
                RECIPES[recipe].run(cfg)
        if self.announce:
            self.console.print(f"[green]✓[/green] {title}{note}")
