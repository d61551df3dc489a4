"""`scisci-gym watch`: a run in the terminal, for people and for scripts."""

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
    """A run as JSON: what `watch --json` prints.

    Returns
    -------
    dict
        ``run``, ``folder``, ``recipe``, ``env``, ``status``, ``silent`` (seconds since the last heartbeat), ``step``,
        ``total``, ``metrics`` (key -> first, last, best, lowest, highest, each [step, value]), ``predicted`` (label ->
        share of the last step's answers) and ``alarms`` (name, level, step, message).
    """
    metrics = {}
    for measure in MEASURES:
        of = summary(state.rows, measure)
        if of is not None:
            metrics[measure.key] = asdict(of)
    return {
        "run": state.name,
        "folder": str(state.folder),
        "recipe": state.record.get("recipe"),
        "env": state.config.get("env"),
        "status": state.status,
        "silent": state.silent,
        "step": state.step,
        "total": state.total,
        "metrics": metrics,
        "predicted": {label: finite(state.rows, PREDICTED + label)[-1][1] for label in labels_of(state.rows)},
        "alarms": [asdict(alarm) for alarm in state.alarms],
    }


def screen(state: RunState, width: int = 100) -> RenderableType:
    """A run for a terminal of so many columns: how far it is, its metrics as curves, its alarms."""
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
    of = f"{state.step} of {state.total if state.total is not None else '?'} updates"
    cells: list[RenderableType] = [of]
    if state.total:
        cells.append(ProgressBar(state.total, state.step, width=max(10, width - 60)))
    left = _remaining(state)
    if left is not None:
        cells.append(f"about {_span(left)} left")
    table.add_row(*cells)
    return table


def _remaining(state: RunState) -> float | None:
    """Seconds to go at the pace since this process took up the run; None where that is unknown."""
    if state.status != "running" or state.heartbeat is None or not state.total:
        return None
    resumed = state.record.get("resumptions") or [{}]
    made = state.step - (resumed[-1].get("updates_before") or 0)
    taken = (datetime.now(UTC) - datetime.fromisoformat(state.heartbeat["started"])).total_seconds()
    return taken / made * (state.total - state.step) if made > 0 else None


def _metrics(state: RunState, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "last", "best", "lowest", "highest"):
        table.add_column(heading, justify="left" if not heading else "right", header_style="dim", no_wrap=True)
    table.add_column("", no_wrap=True)
    for measure in MEASURES:
        of = summary(state.rows, measure)
        if of is None:
            continue
        points = [value for _, value in values(state.rows, measure.key)]
        best = shown(of.best[1]) if of.best else ""
        cells = (shown(of.last[1]), best, shown(of.lowest[1]), shown(of.highest[1]))
        table.add_row(measure.brief, *cells, sparkline(points, max(8, width - 76)), style=None)
    return table


def _labels(state: RunState, labels: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("answers", "share", "right for"):
        table.add_column(heading, justify="left" if heading == "answers" else "right", header_style="dim")
    for label in labels:
        said = finite(state.rows, PREDICTED + label)[-1][1]
        right = finite(state.rows, EXPECTED + label)
        table.add_row(escape(label), f"{said:.0%}", f"{right[-1][1]:.0%}" if right else "")
    return table


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if 60 <= seconds < 1e9 else f"{shown(seconds)} s"
