"""`scisci-gym study`: train all arms, ask all of them the same, and say what it comes to. Resumable at every point."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ....datasets.atomic_files import write_json_atomically
from ....datasets.dataset_folder import refuse_foreign
from ....datasets.errors import BadInput
from ....evaluation.baselines import simple_baselines
from ...kit.config import parse_options
from ...kit.engines import EngineSwitch
from .assessment import assess_arms
from .plan import StudyPlan
from .report import write_study_report
from .result import StudyResult, study_result
from .runs import arm_config, train_arms


def run_study(plan: StudyPlan, out: Path, console: Console, engine: str | None = None) -> StudyResult:
    """Run a study in `out`, or go on with the one that is there.

    Raises
    ------
    BadInput
        If `out` holds a study with another plan.
    ValueError
        If an arm's options do not fit its recipe. Nothing has been started then.
    """
    _claim(plan, out)
    for arm in plan.trained:
        if arm.start is None:
            arm_config(plan, arm, plan.seeds[0], out)
    with EngineSwitch() as switch:
        train_arms(plan, out, console, switch, engine)
        # Any engine samples from adapters of any kind.
        switch.to(engine, out / "checkpoints")
        assessed = asyncio.run(assess_arms(plan, out, console))
    with console.status("baselines"):
        options = parse_options(plan.env, plan.env_options)
        baselines = simple_baselines(plan.dataset, plan.seeds[0], plan.split, plan.env, options, plan.max_examples)
    result = study_result(plan, out, assessed, baselines)
    write_json_atomically(out / "study.json", result.to_json())
    write_study_report(result, assessed, out)
    return result


def _claim(plan: StudyPlan, out: Path) -> None:
    path, ours = out / "plan.json", json.loads(json.dumps(plan.to_json()))
    if path.is_file():
        theirs = json.loads(path.read_text())
        if theirs != ours:
            names = [name for name in ours if theirs.get(name) != ours[name]]
            raise BadInput(
                f"{out} holds a study with other {' and '.join(names)}; choose another --out, or delete the folder"
            )
        return
    refuse_foreign(out, path.name)
    out.mkdir(parents=True, exist_ok=True)
    write_json_atomically(path, ours)


def study_table(result: StudyResult) -> Table:
    """The arms side by side, for a terminal of 80 columns."""
    seeds = len(result.plan.seeds)
    counted = f"{result.papers:,} papers, {seeds} seed{'s' * (seeds > 1)}"
    title = f"{result.plan.split} split, {counted}: macro-F1 [95 % interval]"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for heading in ("", "greedy", "by seed", "sampled", "MCC"):
        table.add_column(heading)
    for row in result.rows:
        table.add_row(
            row.title,
            str(row.greedy),
            " ".join(f"{value:.3f}" for value in row.by_seed) if len(row.by_seed) > 1 else "",
            f"{row.sampled.value:.3f}" if row.sampled else "",
            f"{row.mcc:.3f}",
            style="bold" if "RL" in row.title else None,
        )
    return table
