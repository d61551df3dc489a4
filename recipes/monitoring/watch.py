"""`scisci-gym watch`: the state of a run in the terminal, and as JSON for scripts."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...evaluation.render.figures import shown
from .metrics import EXPECTED, MEASURES, PREDICTED, finite, labels_of, sparkline, summary, values
from .record import RunState

STYLES = {"running": "green", "finished": "green", "killed": "bold red", "failed": "bold red"}


def snapshot(state: RunState) -> dict[str, Any]:
    """The state of a run as JSON, which `watch --json` prints.

    Returns
    -------
    dict
        ``run``, ``folder``, ``recipe``, ``env``, ``status``, ``silent`` (seconds since the last heartbeat), ``step``,
        ``total``, ``metrics`` (key -> first, last, best, lowest, highest, each [step, value]), ``predicted`` (label ->
        share of the last step's answers) and ``alarms`` (name, level, step, message).
    """
    summaries = {measure.key: summary(state.rows, measure) for measure in MEASURES}
    return {
        "run": state.name,
        "folder": str(state.folder),
        "recipe": state.record.get("recipe"),
        "env": state.config.get("env"),
        "status": state.status,
        "silent": state.silent,
        "step": state.step,
        "total": state.total,
        "metrics": {key: asdict(values) for key, values in summaries.items() if values is not None},
        "predicted": {label: finite(state.rows, PREDICTED + label)[-1][1] for label in labels_of(state.rows)},
        "alarms": [asdict(alarm) for alarm in state.alarms],
    }


def screen(state: RunState, width: int = 100) -> RenderableType:
    """The state of a run for a terminal of `width` columns: progress, metrics as curves, alarms."""
    parts: list[RenderableType] = [_heading(state), _progress(state, width), Text()]
    parts.append(_metrics(state, width) if state.rows else Text("no metrics yet", style="dim"))
    labels = labels_of(state.rows)
    if labels:
        parts += [Text(), _labels(state, labels)]
    parts.append(Text())
    for alarm in state.alarms:
        style = "bold red" if alarm.level == "error" else "yellow"
        parts.append(Text.from_markup(f"[{style}]{alarm.level}: {alarm.name}[/] {escape(alarm.message)}"))
    if not state.alarms:
        parts.append(Text("no alarms", style="dim"))
    return Group(*parts)


def _heading(state: RunState) -> Text:
    text = Text(state.name, style="bold")
    about = " on ".join(str(part) for part in (state.record.get("recipe"), state.config.get("env")) if part)
    text.append(f"  {about}  ", style="default")
    text.append(state.status, style=STYLES.get(state.status, "yellow"))
    if state.heartbeat is None:
        text.append("  no heartbeat: not started by a recipe of this version", style="dim")
    elif state.status in ("running", "killed"):
        where = f"pid {state.heartbeat['pid']} on {state.heartbeat['host']}"
        text.append(f"  {where}, heartbeat {_span(state.silent or 0.0)} ago", style="dim")
    return text


def _progress(state: RunState, width: int) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    cells: list[RenderableType] = [f"{state.step} of {'?' if state.total is None else state.total} updates"]
    if state.total:
        cells.append(ProgressBar(state.total, state.step, width=max(10, width - 60)))
    remaining = _remaining(state)
    if remaining is not None:
        cells.append(f"about {_span(remaining)} left")
    table.add_row(*cells)
    return table


def _remaining(state: RunState) -> float | None:
    """Estimated seconds to the end, at the pace since the run was last started; None if that is unknown."""
    if state.status != "running" or state.heartbeat is None or not state.total:
        return None
    resumptions = state.record.get("resumptions") or [{}]
    updates = state.step - (resumptions[-1].get("updates_before") or 0)
    seconds = (datetime.now(UTC) - datetime.fromisoformat(state.heartbeat["started"])).total_seconds()
    return seconds / updates * (state.total - state.step) if updates > 0 else None


def _metrics(state: RunState, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "last", "best", "lowest", "highest"):
        table.add_column(heading, justify="left" if not heading else "right", header_style="dim", no_wrap=True)
    table.add_column("", no_wrap=True)
    for measure in MEASURES:
        points = summary(state.rows, measure)
        if points is None:
            continue
        curve = sparkline([value for _, value in values(state.rows, measure.key)], max(8, width - 76))
        best = shown(points.best[1]) if points.best else ""
        cells = (shown(points.last[1]), best, shown(points.lowest[1]), shown(points.highest[1]))
        table.add_row(measure.brief, *cells, curve)
    return table


def _labels(state: RunState, labels: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("answers", "share", "right for"):
        table.add_column(heading, justify="left" if heading == "answers" else "right", header_style="dim")
    for label in labels:
        predicted = finite(state.rows, PREDICTED + label)[-1][1]
        expected = finite(state.rows, EXPECTED + label)
        table.add_row(escape(label), f"{predicted:.0%}", f"{expected[-1][1]:.0%}" if expected else "")
    return table


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if 60 <= seconds < 1e9 else f"{shown(seconds)} s"
