"""`scisci-gym watch`: the state of a run in the terminal, and as JSON for scripts."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ...evaluation.render.figures import shown
from .metrics import sparkline, values
from .record import RunState
from .summary import RunSummary

STYLES = {"running": "green", "finished": "green", "killed": "bold red", "failed": "bold red"}


def snapshot(state: RunState) -> dict[str, Any]:
    """The state of a run as JSON, which `watch --json` prints.

    ``silent`` are the seconds since the last heartbeat; ``metrics`` has for each key first, last, best, lowest and
    highest, each [step, value], and ``predicted`` the share of each label among the last step's answers.
    """
    run = RunSummary(state)
    return {
        "run": state.name,
        "folder": str(state.folder),
        "recipe": state.record.get("recipe"),
        "env": state.config.get("env"),
        **{name: getattr(state, name) for name in ("status", "silent", "step", "total")},
        "metrics": {measure.key: asdict(values) for measure, values in run.measures.items()},
        "predicted": {label: share for label, (share, _) in run.labels.items()},
        "alarms": [asdict(alarm) for alarm in state.alarms],
    }


def screen(state: RunState, width: int = 100) -> RenderableType:
    """The state of a run for a terminal of `width` columns: progress, metrics as curves, alarms."""
    parts: list[RenderableType] = [_heading(state), _progress(state, width), Text()]
    run = RunSummary(state)
    parts.append(_metrics(run, width) if state.rows else Text("no metrics yet", style="dim"))
    if run.labels:
        table = _table(("answers", "share", "right for"))
        for label, (predicted, expected) in run.labels.items():
            table.add_row(escape(label), f"{predicted:.0%}", "" if expected is None else f"{expected:.0%}")
        parts += [Text(), table]
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
    cells: list[RenderableType] = [f"{state.step} of {'?' if state.total is None else state.total} updates"]
    if state.total:
        cells.append(ProgressBar(state.total, state.step, width=max(10, width - 60)))
        if state.status == "running" and state.heartbeat is not None:
            # At the pace since the run was last started.
            resumptions = state.record.get("resumptions") or [{}]
            updates = state.step - (resumptions[-1].get("updates_before") or 0)
            seconds = (datetime.now(UTC) - datetime.fromisoformat(state.heartbeat["started"])).total_seconds()
            if updates > 0:
                cells.append(f"about {_span(seconds / updates * (state.total - state.step))} left")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row(*cells)
    return table


def _metrics(run: RunSummary, width: int) -> Table:
    table = _table(("", "last", "best", "lowest", "highest"))
    table.add_column("", no_wrap=True)
    for measure, points in run.measures.items():
        curve = sparkline([value for _, value in values(run.state.rows, measure.key)], max(8, width - 76))
        cells = (points.last, points.best, points.lowest, points.highest)
        table.add_row(measure.brief, *("" if cell is None else shown(cell[1]) for cell in cells), curve)
    return table


def _table(headings: Sequence[str]) -> Table:
    """A table without lines: names on the left, then numbers."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", header_style="dim", no_wrap=True)
    return table


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds))) if 60 <= seconds < 1e9 else f"{shown(seconds)} s"
