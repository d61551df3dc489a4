"""`scisci-gym sweep`: one recipe over a grid of values of its options, run by run, with a table beside it."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ...datasets.atomic_files import write_json_atomically, write_text_atomically
from ...datasets.dataset_folder import refuse_foreign
from ...evaluation.bootstrap import seed_half_width
from ...evaluation.render.figures import as_float, mean_of
from ..monitoring.record import read_run_record
from ..monitoring.summary import RunSummary
from .runner import RECIPES, Runner, config_of, require_option, require_same_data

# Columns of the table: heading, metric of the last steps, format. Those that no run has are left out.
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
FORMATS = {heading: form for heading, _, form in COLUMNS}
FORMATS |= {"validation": "{:.3f}", "episodes/s": "{:.1f}", "tokens/s": "{:.0f}"}
TOKENS = ("env/all/total_ac_tokens", "num_tokens")
EPISODES = ("env/all/total_episodes", "num_sequences", "num_pairs")
# Values of these options contain commas: their alternatives are separated by semicolons.
WITH_COMMAS = ("env_options",)
# Columns that a narrow terminal leaves out, in this order, until the table fits; `sweep.md` has all.
SPARE = ("tokens/s", "all best", "all floor", "loss", "no signal")


def alternatives(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values to try of every option.

    Raises `ValueError` if an argument is not of the form ``name=value``, a name comes twice, or a value is empty.

    Examples
    --------
    >>> alternatives(["group_size=4,8", "env_options=prompt=short"])
    {'group_size': ['4', '8'], 'env_options': ['prompt=short']}
    """
    options: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, values = argument.partition("=")
        if not equals or not name or name in options:
            raise ValueError(f"a sweep takes each option once, as name=value or name=value,value; got {argument!r}")
        separator = ";" if ";" in values or name in WITH_COMMAS else ","
        options[name] = values.split(separator)
        if "" in options[name]:
            raise ValueError(f"{argument!r} has an empty value")
    return options


def grid(options: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of the alternatives, the last option fastest."""
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


@dataclass
class SweepRun:
    """A run at one combination of the options that vary (`point`), with its `measures`."""

    point: dict[str, str]
    folder: Path
    measures: dict[str, float | None]


class Sweep:
    """Runs of one recipe in folders below `out`; an interrupted sweep continues the run that it stopped in.

    `recipe` is a name of `RECIPES`; `options` has the alternatives of every option. They override `base`, the options
    that all runs share, such as those of an earlier run. Raises `ValueError` if the recipe has no such option, or the
    option is the folder.
    """

    def __init__(self, recipe: str, options: Mapping[str, Sequence[str]], out: Path, base: dict[str, Any]):
        self.recipe, self.out, self.base = recipe, out, base
        self.varied = [name for name, values in options.items() if len(values) > 1]
        self.points = grid(options)
        for name in options:
            require_option(recipe, name)
        if "log_path" in options:
            raise ValueError("a sweep names the folders of its runs; use --out instead of log_path=")

    def folder(self, point: Mapping[str, str]) -> Path:
        """Folder of the run at a point of the grid."""
        parts = [f"{name}={point[name]}" for name in self.varied] or ["run"]
        return self.out / "__".join(parts).replace("/", "_")

    def run(self, console: Console) -> list[SweepRun]:
        """Train what is not trained yet, and write `sweep.json` and `sweep.md` after every run.

        Raises `BadInput` before anything is trained if the dataset of a run has another content than when it began.
        """
        folders = [self.folder(point) for point in self.points]
        configs = []
        for point, folder in zip(self.points, folders, strict=True):
            configs.append(config_of(self.recipe, {**self.base, **point, "log_path": str(folder)}))
            RECIPES[self.recipe].build(configs[-1])
            require_same_data(folder, configs[-1].dataset, "delete that folder", runs=[folder])
        refuse_foreign(self.out, "sweep.json")
        if not (self.out / "sweep.json").is_file():
            self._write([])
        runs: list[SweepRun] = []
        with Runner(console) as runner:
            for point, folder, cfg in zip(self.points, folders, configs, strict=True):
                varied = {name: point[name] for name in self.varied}
                title = ", ".join(f"{name}={value}" for name, value in varied.items()) or folder.name
                runner.train(self.recipe, cfg, title, position=f"{len(runs) + 1}/{len(configs)} ")
                runs.append(SweepRun(varied, folder, measures(folder)))
                self._write(runs)
        return runs

    def _write(self, runs: Sequence[SweepRun]) -> None:
        rows = [{"point": run.point, "folder": run.folder.name, "measures": run.measures} for run in runs]
        write_json_atomically(self.out / "sweep.json", {"recipe": self.recipe, "runs": rows})
        headings, cells = tabulated(runs, self.varied)
        lines = [headings, ["---"] * len(headings), *cells]
        write_text_atomically(self.out / "sweep.md", "".join(f"| {' | '.join(line)} |\n" for line in lines))


def measures(folder: Path) -> dict[str, float | None]:
    """What the table shows of a run, by heading, from its `metrics.jsonl`; None where the run has not logged it.

    Metrics are means over the last ten steps, ``validation`` is the best validation score, ``episodes/s`` and
    ``tokens/s`` are medians over steps.
    """
    run = RunSummary.of(folder)
    ends = {heading: run.ends(key) for heading, key, _ in COLUMNS}
    values: dict[str, float | None] = {heading: last[1] if last else None for heading, last in ends.items()}
    values["validation"] = run.best_validation[1] if run.best_validation else None
    return {**values, "episodes/s": _rate(run.state.rows, EPISODES), "tokens/s": _rate(run.state.rows, TOKENS)}


def _rate(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> float | None:
    """Median over steps of an amount a second, without the time of evaluations."""
    rates = []
    for row in rows:
        amount = next((row[name] for name in names if name in row), None)
        seconds = as_float(row.get("time/total", 0.0)) - as_float(row.get("time/run_evals", 0.0))
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
    shown = [name for name in FORMATS if any(run.measures.get(name) is not None for run in runs)]
    several = "seed" in varied
    rows = []
    for key, members in groups.items():
        cells = [_cell([run.measures.get(name) for run in members], FORMATS[name]) for name in shown]
        rows.append([*key, *([str(len(members))] if several else []), *cells])
    return [*keys, *(["seeds"] if several else []), *shown], rows


def _cell(values: Sequence[float | None], form: str) -> str:
    defined = [value for value in values if value is not None]
    if not defined:
        return ""
    mean = form.format(mean_of(defined))
    return mean if len(defined) == 1 else f"{mean} ±{form.format(float(seed_half_width(np.array(defined))))}"


def sweep_table(runs: Sequence[SweepRun], varied: Sequence[str], console: Console) -> Table:
    """The runs side by side, for a terminal. Metrics are means over the last ten steps."""
    headings, rows = tabulated(runs, varied)
    columns = {heading: [row[index] for row in rows] for index, heading in enumerate(headings)}
    # "0.50 ±0.18" and "no signal" may break at the space, never inside a number.
    widths = {
        heading: max(len(word) for text in (heading, *cells) for word in [*text.split(), ""])
        for heading, cells in columns.items()
    }
    for spare in SPARE:
        if sum(widths[heading] + 2 for heading in columns) > console.width:
            columns.pop(spare, None)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in columns:
        table.add_column(heading, width=widths[heading])
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def base_options(like: Path | None, recipe: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Options of an earlier run that a sweep starts from: those of `like`, or of the demo's run if there is one.

    Folders of the run and its own name are left out.

    Raises `FileNotFoundError` if `like` is not the folder of a run, `ValueError` if it is a run of another recipe.
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
