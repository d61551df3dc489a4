"""`scisci-gym sweep`: one recipe over a grid of values of its options, resumed run by run, and a table beside it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chz
import numpy as np
from rich.console import Console
from rich.table import Table

from ...datasets.atomic_files import write_json_atomically, write_text_atomically
from ...datasets.dataset_folder import refuse_foreign
from ...evaluation.bootstrap import seed_half_width
from ...evaluation.render.figures import as_float, mean_of
from ..catalogue import RECIPES
from ..kit.config import RecipeConfig
from ..kit.engines import EngineSwitch
from ..monitoring.metrics import finite, read_metrics
from ..monitoring.progress import training_progress
from ..monitoring.record import read_run_record

# What runs are laid side by side by: heading, metric of the last steps, format. Those that no run has are left out.
COLUMNS = (
    ("reward", "env/all/reward/total", "{:.3f}"),
    ("correct", "env/all/correct", "{:.3f}"),
    ("ties", "env/all/reward_tie_pair_rate", "{:.2f}"),
    ("no signal", "env/all/reward_uniform_group_rate", "{:.2f}"),
    ("all floor", "env/all/reward_uniform_floor_rate", "{:.2f}"),
    ("all best", "env/all/reward_uniform_best_rate", "{:.2f}"),
    ("loss", "train_mean_nll", "{:.3f}"),
    ("DPO loss", "dpo_loss", "{:.3f}"),
)
TOKENS = ("env/all/total_ac_tokens", "num_tokens")
EPISODES = ("env/all/total_episodes", "num_sequences", "num_pairs")
LAST = 10
# Values of these options hold commas themselves: alternatives are separated by semicolons.
WITH_COMMAS = ("env_options",)


def alternatives(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values to try of every option.

    Raises
    ------
    ValueError
        If an argument is not of the form ``name=value``, a name comes twice, or a value is empty.

    Examples
    --------
    >>> alternatives(["group_size=4,8", "env_options=prompt=short"])
    {'group_size': ['4', '8'], 'env_options': ['prompt=short']}
    """
    found: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, values = argument.partition("=")
        if not equals or not name or name in found:
            raise ValueError(f"a sweep takes each option once, as name=value or name=value,value; got {argument!r}")
        separator = ";" if ";" in values or name in WITH_COMMAS else ","
        found[name] = values.split(separator)
        if "" in found[name]:
            raise ValueError(f"{argument!r} has an empty value")
    return found


def grid(options: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Every combination of the alternatives, the last option fastest."""
    for values in itertools.product(*options.values()):
        yield dict(zip(options, values, strict=True))


@dataclass
class SweepRun:
    """One combination.

    Parameters
    ----------
    point : dict
        Values of the options that vary.
    folder : Path
    measures : dict
        Heading -> mean over the last ten steps, or None; besides ``validation`` (the best), ``episodes/s`` and
        ``tokens/s`` (medians over steps).
    """

    point: dict[str, str]
    folder: Path
    measures: dict[str, float | None]


class Sweep:
    """Runs of one recipe in folders below `out`; a sweep that was interrupted goes on with the run that it was at.

    Parameters
    ----------
    recipe : str
        A name of `RECIPES`.
    options : mapping from option to its alternatives
    out : Path
    base : dict
        Options that all runs share, such as those of an earlier run; `options` override them.
    """

    def __init__(self, recipe: str, options: Mapping[str, Sequence[str]], out: Path, base: dict[str, Any]):
        self.recipe, self.out, self.base = RECIPES[recipe], out, base
        self.varied = [name for name, values in options.items() if len(values) > 1]
        self.points = list(grid(options))
        known = chz.chz_fields(self.recipe.config)
        for name in options:
            if name not in known:
                raise ValueError(f"{recipe} has no option {name!r}; it has {', '.join(sorted(known))}")
        if "log_path" in options:
            raise ValueError("a sweep names the folders of its runs; use --out instead of log_path=")

    def config(self, point: Mapping[str, str]) -> RecipeConfig:
        """Options of the run at a point of the grid. Text values are read as the recipe's command line reads them."""
        blueprint = chz.Blueprint(self.recipe.config).apply({**self.base, "log_path": str(self.folder(point))})
        return blueprint.make_from_argv([f"{name}={value}" for name, value in point.items()])

    def folder(self, point: Mapping[str, str]) -> Path:
        """Where the run at a point of the grid is kept."""
        parts = [f"{name}={point[name]}" for name in self.varied] or ["run"]
        return self.out / "__".join(parts).replace("/", "_")

    def run(self, console: Console) -> list[SweepRun]:
        """Do what is not done, and write `sweep.json` and `sweep.md` after every run."""
        configs = [self.config(point) for point in self.points]
        for cfg in configs:
            self.recipe.build(cfg)
        refuse_foreign(self.out, "sweep.json")
        if not (self.out / "sweep.json").is_file():
            self._write([])
        done: list[SweepRun] = []
        with EngineSwitch() as engine:
            for at, (point, cfg) in enumerate(zip(self.points, configs, strict=True), start=1):
                folder = self.folder(point)
                name = ", ".join(f"{option}={point[option]}" for option in self.varied) or folder.name
                if finished(folder, cfg):
                    console.print(f"[green]✓[/green] {name} [dim](done before)[/dim]")
                else:
                    engine.to(cfg.engine, cfg.checkpoints, cfg.adapter, cfg.quantize)
                    steps = getattr(cfg, "max_steps", 0)
                    with training_progress(f"{at}/{len(configs)} {name}", folder, steps, console):
                        self.recipe.run(cfg)
                    console.print(f"[green]✓[/green] {name}")
                done.append(SweepRun({o: point[o] for o in self.varied}, folder, measures(folder)))
                self._write(done)
        return done

    def _write(self, done: Sequence[SweepRun]) -> None:
        found = [{"point": run.point, "folder": run.folder.name, "measures": run.measures} for run in done]
        write_json_atomically(self.out / "sweep.json", {"recipe": self.recipe.name, "runs": found})
        headings, rows = tabulated(done, self.varied)
        lines = [headings, ["---"] * len(headings), *rows]
        write_text_atomically(self.out / "sweep.md", "".join(f"| {' | '.join(line)} |\n" for line in lines))


def finished(folder: Path, cfg: RecipeConfig) -> bool:
    """Whether a run with these options has ended well in `folder`."""
    if not (folder / "run.json").is_file():
        return False
    record = read_run_record(folder)
    return record.get("status") == "finished" and record["config"] == json.loads(
        json.dumps(chz.asdict(cfg), default=str)
    )


def measures(folder: Path) -> dict[str, float | None]:
    """What the table shows of a run, from its `metrics.jsonl`."""
    rows = read_metrics(folder)
    steps = [row for row in rows if any(name in row for name in EPISODES)]
    found: dict[str, float | None] = {
        heading: _mean([value for _, value in finite(steps[-LAST:], key)]) for heading, key, _ in COLUMNS
    }
    found["validation"] = max((value for _, value in finite(rows, "validation/macro_f1")), default=None)
    found["episodes/s"], found["tokens/s"] = _rate(steps, EPISODES), _rate(steps, TOKENS)
    return found


def _mean(values: Sequence[float]) -> float | None:
    return mean_of(values) if values else None


def _rate(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> float | None:
    """Median over steps of what was done a second, evaluations left out."""
    rates = []
    for row in rows:
        amount = next((row[name] for name in names if name in row), None)
        seconds = row.get("time/total", 0.0) - row.get("time/run_evals", 0.0)
        if amount is not None and seconds > 0:
            rates.append(as_float(amount) / seconds)
    return float(np.median(rates)) if rates else None


def tabulated(runs: Sequence[SweepRun], varied: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows. Runs that differ in the seed alone are one row: the mean, and half the width of its 95 % t
    interval over seeds.
    """
    keys = [name for name in varied if name != "seed"]
    groups: dict[tuple[str, ...], list[SweepRun]] = {}
    for run in runs:
        groups.setdefault(tuple(run.point[name] for name in keys), []).append(run)
    formats = {heading: form for heading, _, form in COLUMNS}
    formats |= {"validation": "{:.3f}", "episodes/s": "{:.1f}", "tokens/s": "{:.0f}"}
    shown = [name for name in formats if any(run.measures.get(name) is not None for run in runs)]
    several = "seed" in varied
    headings = [*keys, *(["seeds"] if several else []), *shown]
    rows = []
    for key, members in groups.items():
        cells = [_cell([m.measures.get(name) for m in members], formats[name]) for name in shown]
        rows.append([*key, *([str(len(members))] if several else []), *cells])
    return headings, rows


def _cell(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean = form.format(mean_of(known))
    return mean if len(known) == 1 else f"{mean} ±{form.format(float(seed_half_width(np.array(known))))}"


# Left out of the terminal's table, in this order, until it fits; `sweep.md` has all.
SPARE = ("tokens/s", "all best", "all floor", "loss", "no signal")


def sweep_table(runs: Sequence[SweepRun], varied: Sequence[str], console: Console) -> Table:
    """The runs side by side, for a terminal. Metrics are means over the last ten steps."""
    headings, rows = tabulated(runs, varied)
    shown = list(range(len(headings)))
    spare = list(SPARE)
    while spare and sum(_width(headings[at], [row[at] for row in rows]) for at in shown) > console.width:
        left_out = spare.pop(0)
        shown = [at for at in shown if headings[at] != left_out]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for at in shown:
        table.add_column(headings[at], width=_width(headings[at], [row[at] for row in rows]) - 2)
    for row in rows:
        table.add_row(*(row[at] for at in shown))
    return table


def _width(heading: str, cells: Sequence[str]) -> int:
    """Characters that a column needs: "0.50 ±0.18" and "no signal" may break at the space, never inside a number."""
    return 2 + max(len(word) for text in (heading, *cells) for word in [*text.split(), ""])


def base_options(like: Path | None, recipe: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Options of an earlier run that a sweep starts from: those of `like`, or of the demo's run if there is one.

    Only options that were chosen for that run are taken; folders and the run's own name are not.
    """
    folder = like or Path("runs/demo") / recipe
    if not (folder / "run.json").is_file():
        if like is None:
            return {}
        raise FileNotFoundError(f"{like} is not a run: it has no run.json; give the log_path of a training run")
    record = read_run_record(folder)
    if record["recipe"] != recipe:
        raise ValueError(f"{folder} is a run of {record['recipe']}, not of {recipe}; name another with --like")
    if like is None:
        say(f"options that are not given are those of {folder}")
    left_out = {"log_path", "wandb_name", "behavior_if_log_dir_exists", "engine"}
    return {name: value for name, value in record["config"].items() if name not in left_out and value is not None}
