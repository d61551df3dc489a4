"""`scisci-gym report RUN...`: options, curves, scores and transcripts of runs on one HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...evaluation.records import without_secrets
from ...evaluation.render.figures import shown
from ...evaluation.render.pages import render_page
from ...evaluation.render.pictures import curves_svg
from ..monitoring.alarms import Alarm, history
from ..monitoring.experiment import comparison_sentence, facts_of, question_of
from ..monitoring.metrics import (
    MEASURES,
    PREDICTED,
    REWARD,
    SHARE,
    SPEED,
    Measure,
    Row,
    labels_of,
    summary,
    tokens_per_second,
)
from ..monitoring.record import RunState, read_evaluations, read_state
from .transcripts import LoggedEpisode, episodes_of

# Metrics are means over few rollouts, so curves have a running mean over this fraction of the steps.
SMOOTHED = 25
EPISODES = 48


@dataclass(frozen=True)
class ReportedRun:
    """One run in the form that the template shows."""

    name: str
    state: RunState
    question: str
    comparison: str
    evaluations: Mapping[str, Mapping[str, Any]]
    alarms: Sequence[tuple[Alarm, int, int]]
    episodes: Sequence[LoggedEpisode]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of `metrics.jsonl`."""
        return self.state.rows


def write_run_report(folders: Sequence[str | Path], out: str | Path, episodes: int = EPISODES) -> Path:
    """Write a report about one or several runs and return its path.

    Parameters
    ----------
    folders : paths
        log_paths of training runs; finished or not.
    out : path
        The file to write. It needs no other file and loads nothing from the network.
    episodes : int
        The largest number of episodes to show of every run.

    Raises
    ------
    FileNotFoundError
        If a folder is not the folder of a run.
    """
    states = [read_state(folder) for folder in folders]
    runs = [_reported(name, state, episodes) for name, state in zip(names_of(states), states, strict=True)]
    measures = [measure for measure in MEASURES if any(summary(run.rows, measure) for run in runs)]
    page = {
        "runs": runs,
        "measures": measures,
        "curves": _curves(runs, measures),
        "headings": [measure.title for measure in headline(measures)],
        "overview": [_overview(run, measures) for run in runs],
        "metrics": [_metrics(run, measures) for run in runs],
        "facts": [facts_of(run.state) for run in runs],
        "splits": sorted({split for run in runs for split in run.evaluations}),
        "options": _options([run.state for run in runs]),
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": version("scisci-gym"),
    }
    return render_page("run_report.html.j2", out, **page)


def names_of(states: Sequence[RunState]) -> list[str]:
    """Distinct names of runs: the names of their folders, with as many parent folders as are needed."""
    paths = [state.folder.resolve() for state in states]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"{paths[0]} is given twice")


def _reported(name: str, state: RunState, episodes: int) -> ReportedRun:
    return ReportedRun(
        name=name,
        state=state,
        question=question_of(state.record),
        comparison=comparison_sentence(state.record, state.rows),
        evaluations=read_evaluations(state.folder),
        alarms=history(state.rows),
        # A policy can write anything, also what looks like a key.
        episodes=[
            replace(episode, data=without_secrets(episode.data)) for episode in episodes_of(state.folder, episodes)
        ],
    )


def _curves(runs: Sequence[ReportedRun], measures: Sequence[Measure]) -> list[str]:
    with_speed = {run.name: [_with_speed(run.rows)] for run in runs}
    pictures = [
        curves_svg(
            with_speed,
            measure.key,
            measure.title,
            limits=measure.limits,
            smooth=max(1, max(len(run.rows) for run in runs) // SMOOTHED) if "validation" not in measure.key else 1,
        )
        for measure in measures
    ]
    if len(runs) == 1 and (labels := labels_of(runs[0].rows)):
        shares = {
            label: [[{"step": row["step"], "share": row.get(PREDICTED + label)} for row in runs[0].rows]]
            for label in labels
        }
        pictures.append(curves_svg(shares, "share", "share of each label among the answers", limits=SHARE, legend=True))
    return pictures


def _with_speed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{**row, SPEED.key: tokens_per_second(row)} for row in rows]


def _overview(run: ReportedRun, measures: Sequence[Measure]) -> list[str]:
    state = run.state
    cells = [
        run.name,
        str(state.record.get("recipe", "?")),
        str(state.config.get("env", "?")),
        state.status,
        f"{state.step} of {state.total or '?'}",
    ]
    for measure in headline(measures):
        points = summary(run.rows, measure)
        point = points and (points.last if measure is REWARD or points.best is None else points.best)
        cells.append(f"{point[1]:.3f} ({point[0]})" if point else "")
    return cells


def _metrics(run: ReportedRun, measures: Sequence[Measure]) -> list[list[str]]:
    rows = []
    for measure in measures:
        values = summary(run.rows, measure)
        if values is not None:
            points = (values.first, values.last, values.best, values.lowest, values.highest)
            cells = ("" if point is None else f"{shown(point[1])} ({point[0]})" for point in points)
            rows.append([measure.title, *cells])
    return rows


def headline(measures: Sequence[Measure]) -> list[Measure]:
    """The measures of the overview: reward, validation score and losses."""
    keys = (REWARD.key, "validation/macro_f1", "train_mean_nll", "dpo_loss")
    return [measure for measure in measures if measure.key in keys]


def _options(states: Sequence[RunState]) -> list[list[str]]:
    """(name, value in each run) of the options that differ between runs, or that were chosen for a single run."""
    configs = [state.config for state in states]
    names = list(dict.fromkeys(name for config in configs for name in config))
    if len(states) == 1:
        chosen = set(states[0].record.get("chosen", names))
        kept = [name for name in names if name in chosen]
    else:
        kept = [name for name in names if len({_option(config, name) for config in configs}) > 1]
    return [[name, *(_option(config, name) for config in configs)] for name in kept]


def _option(config: Mapping[str, Any], name: str) -> str:
    if name not in config:
        return "–"
    return config[name] if isinstance(config[name], str) else json.dumps(config[name])
