"""Learning curves, reliability diagrams and leaderboards as inline SVG in the colours of the page, light or dark."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from .figures import as_float

if TYPE_CHECKING:
    from ..bootstrap import Score
    from ..calibration import Calibration
    from ..leaderboard import Board

Rows = Sequence[Mapping[str, Any]]

# Matplotlib draws in these colours; `_themed` turns each into a variable of the page, see base.html.j2.
INK, MUTED, GRID = "#010101", "#020202", "#030303"
LINES = ("#100001", "#100002", "#100003", "#100004", "#100005", "#100006", "#100007", "#100008")
FALLBACKS = ("#0b66b5", "#c14a00", "#00805b", "#a8477e", "#7a6a00", "#2a87b8", "#6b4fb3", "#555d66")
VARIABLES = {
    INK: "var(--ink, #1b1f24)",
    MUTED: "var(--muted, #5d6670)",
    GRID: "var(--line, #d9dde2)",
    **{LINES[at]: f"var(--c{at + 1}, {fallback})" for at, fallback in enumerate(FALLBACKS)},
}
# Colours of pictures that are files of their own.
PRINTED_INK, PRINTED_MUTED, PRINTED_ACCENT, PRINTED_GRID = "#1b1f24", "#6b7480", "#0b66b5", "#e4e7eb"
DASHES = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
DASHED = {"linewidth": 1, "linestyle": (0, (4, 3))}
FONTS: dict[Any, Any] = {"svg.fonttype": "none", "font.family": "sans-serif"}
# Matplotlib computes with multiples of what it draws, which have to be floats too.
DRAWABLE = 1e300
# Inches of a picture with names beside it, whose letters can be read on a screen of 400 pixels.
NARROW = 3.8
# Letters of a title that fit above an inch of a picture.
LETTERS = 11
# What is smaller than this throughout, such as a divergence of equal policies, is rounding and drawn as zero.
ROUNDING = 1e-6


def curves_svg(
    runs: Mapping[str, Sequence[Rows]],
    key: str,
    title: str,
    *,
    levels: Sequence[tuple[str, float]] = (),
    marks: Mapping[str, int | None] | None = None,
    limits: tuple[float, float] | None = None,
    smooth: int = 1,
    legend: bool = False,
) -> str:
    """One metric of several runs, or of arms of several seeds, over the steps, as an `<svg>` element.

    A name with one run is a line. A name with several (seeds) is their mean at the steps that all of them logged, in a
    band from the lowest to the highest. Lines differ in colour and, from the second on, in dashes. Values that are not
    finite leave a gap.

    Parameters
    ----------
    runs : mapping from name to one list of rows of `metrics.jsonl` for each seed
        Rows without `key` are passed over; a name without any such row keeps its colour and gets no line.
    levels : (name, value) pairs drawn as horizontal lines
    marks : for a name, the step to circle, such as the checkpoint that was chosen
    limits : range of the vertical axis
    smooth : int >= 1
        The line is a running mean over so many logged steps; the values themselves are drawn behind it, faintly.
    legend : bool
        Write the names into the picture; a page with several pictures has one legend for all (`parts.legend`).

    The SVG may be put into a page as it is; names and title are escaped.
    """
    if smooth < 1:
        raise ValueError(f"smooth must be at least 1, got {smooth}")

    def draw(axes: Any) -> None:
        for at, (name, seeds) in enumerate(runs.items()):
            steps, low, mean, high = _band(seeds, key)
            if not len(steps):
                continue
            colour, line = LINES[at % len(LINES)], mean
            if len(seeds) > 1:
                axes.fill_between(steps, low, high, color=colour, alpha=0.16, linewidth=0)
            if 1 < smooth < len(steps):
                axes.plot(steps, mean, color=colour, linewidth=0.8, alpha=0.3)
                line = running_mean(mean, smooth)
            style = {"color": colour, "dashes": _dashes(at), "marker": "o" if len(steps) < 20 else None}
            axes.plot(steps, line, **style, linewidth=1.8, markersize=4, gid=f"line-{at + 1}")
            chosen = np.flatnonzero(steps == (marks or {}).get(name))
            if len(chosen):
                axes.plot(steps[chosen], mean[chosen], "o", color=colour, markersize=9, fillstyle="none")
        for name, value in levels:
            axes.axhline(value, color=MUTED, **DASHED)
            options = {"xycoords": ("axes fraction", "data"), "va": "bottom"}
            axes.annotate(_plain(name), (0.02, value), color=MUTED, fontsize=8, **options)
        if limits:
            axes.set_ylim(*limits)
        elif 0 < max(map(abs, axes.dataLim.intervaly)) < ROUNDING:
            axes.set_ylim(-ROUNDING, ROUNDING)
        axes.set_xlabel("step", fontsize=9, color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if legend and len(runs) > 1:
            lines = [Line2D([], [], color=LINES[at % len(LINES)], dashes=_dashes(at)) for at in range(len(runs))]
            axes.legend(lines, [_plain(name) for name in runs], frameon=False, fontsize=8, labelcolor=INK)

    return figure_svg(
        title, draw, salt=key + title, said=list(filter(None, (_ends(*run, key) for run in runs.items())))
    )


def _ends(name: str, seeds: Sequence[Rows], key: str) -> str:
    """Where a line begins and ends, in words; nothing where there is no line."""
    steps, _, mean, _ = _band(seeds, key)
    if not len(steps):
        return ""
    return f"{name} from {mean[0]:.3g} at step {steps[0]:g} to {mean[-1]:.3g} at step {steps[-1]:g}".strip()


def figure_svg(
    title: str,
    draw: Callable[[Any], None],
    size: tuple[float, float] = (5.2, 2.9),
    salt: str | None = None,
    said: Sequence[str] = (),
) -> str:
    """A picture in the style of the pages, as an `<svg>` element.

    `draw` draws on the axes it is given, in `INK`, `MUTED`, `GRID` and `LINES`; `size` is (width, height) in inches.
    The `salt`, by default the title, makes the ids of the picture's parts differ from those of other pictures. `said`
    is what the picture shows, for readers who do not see it; the title stands before it.
    """
    with matplotlib.rc_context({**FONTS, "svg.hashsalt": salt or title}):
        figure, axes = plt.subplots(figsize=size)
        try:
            draw(axes)
            axes.set_title(_plain(fill(title, int(LETTERS * size[0]))), loc="left", fontsize=10, color=INK)
            axes.tick_params(labelsize=8, colors=INK)
            for side, spine in axes.spines.items():
                spine.set_visible(side in ("left", "bottom"))
                spine.set_color(MUTED)
            axes.grid(axis="y", color=GRID, linewidth=0.8)
            axes.set_axisbelow(True)
            buffer = io.StringIO()
            # Fixed ids and no date: the same run gives the same report.
            figure.savefig(buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None})
        finally:
            plt.close(figure)
    return _themed(buffer.getvalue(), ": ".join(filter(None, [title, ", ".join(said)])))


def legend_line(at: int) -> str:
    """A short piece of line number `at` (from 0), for a legend outside the pictures."""
    dashes = " ".join(str(3 * length) for length in _dashes(at))
    return (
        f'<svg viewBox="0 0 40 8" aria-hidden="true"><line x1="0" y1="4" x2="40" y2="4" stroke-width="3" '
        f'stroke="{VARIABLES[LINES[at % len(LINES)]]}" stroke-dasharray="{dashes or "none"}"/></svg>'
    )


def _dashes(at: int) -> tuple[float, ...]:
    return DASHES[at % len(DASHES)]


def _band(seeds: Sequence[Rows], key: str) -> np.ndarray:
    """Float (4, T): the steps that every seed logged, and the lowest, mean and highest value there."""
    points = [_points(rows, key) for rows in seeds]
    steps = sorted(set.intersection(*map(set, points))) if points else []
    if not steps:
        return np.empty((4, 0))
    values = np.array([[found[step] for step in steps] for found in points])
    return np.stack([np.array(steps), values.min(axis=0), values.mean(axis=0), values.max(axis=0)])


def _points(rows: Rows, key: str) -> dict[float, float]:
    """Value by step, of the rows that have a finite number of a size that can be drawn."""
    found = [(row["step"], row[key]) for row in rows if "step" in row and key in row]
    numbers = [pair for pair in found if isinstance(pair[1], int | float) and not isinstance(pair[1], bool)]
    points = [(as_float(step), as_float(value)) for step, value in numbers]
    return {step: value for step, value in points if abs(step) < DRAWABLE and abs(value) < DRAWABLE}


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean of the last `width` values, of all so far where there are fewer; never of later ones.

    Examples
    --------
    >>> running_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [1.0, 2.0, 4.0]
    """
    sums = np.cumsum(values)
    sums[width:] -= sums[:-width].copy()
    return sums / np.minimum(np.arange(1, len(values) + 1), width)


def _plain(text: str) -> str:
    """Matplotlib reads `$...$` as mathematics."""
    return text.replace("$", r"\$")


def _themed(svg: str, text: str) -> str:
    svg = svg[svg.index("<svg") :]
    # A style element would apply to the whole page and not to the picture alone; the metadata name only matplotlib.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    # The page's own letters; what is drawn stays readable on its own as well.
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", svg)
    return svg.replace("<svg", f'<svg role="img" stroke-linejoin="round" aria-label="{html.escape(text)}"', 1)


def reliability_svg(title: str, result: Calibration) -> str:
    """A reliability diagram as an `<svg>` element.

    Each bin is a dot with its 95 % interval, larger where it holds more forecasts; calibrated forecasts lie on the
    diagonal.
    """

    def draw(axes: Any) -> None:
        filled = [part for part in result.bins if part.n]
        most = max((part.n for part in filled), default=1)
        axes.plot([0, 1], [0, 1], color=MUTED, **DASHED)
        for part in filled:
            axes.plot([part.forecast] * 2, [part.observed_low, part.observed_high], color=LINES[0], linewidth=1)
            size = 3 + 6 * (part.n / most) ** 0.5
            axes.plot(part.forecast, part.observed, "o", color=LINES[0], markersize=size, clip_on=False)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        axes.set_xlabel("predicted probability", fontsize=9, color=INK)
        axes.set_ylabel("observed frequency", fontsize=9, color=INK)

    return figure_svg(f"{title}: ECE {result.ece.value:.3f}", draw, size=(3.4, 3.1))


def scores_svg(
    title: str, baselines: Mapping[str, Score], policies: Mapping[str, Score], best: tuple[str, float] | None = None
) -> str:
    """Scores of at most 1 with their intervals, one below the other, as an `<svg>`. Policies have another colour
    than baselines; `best` is the name and value of a line from top to bottom."""
    rows = [*((*item, MUTED) for item in baselines.items()), *((*item, LINES[0]) for item in policies.items())]

    def draw(axes: Any) -> None:
        _draw_scores(axes, rows, INK)
        axes.set_xlim(min([0.0, *(score.low for _, score, _ in rows)]), 1)
        if best is not None:
            name, value = best
            axes.set_ylim(bottom=-0.4)
            axes.axvline(value, color=MUTED, **DASHED)
            place: dict[str, Any] = {"xytext": (-4, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
            axes.annotate(f"{_plain(name)} {value:.3f}", (value, 0.1), **place, color=MUTED, fontsize=8)

    said = [f"{name} {score.value:.3f}" for name, score, _ in rows]
    said += [f"{best[0]} {best[1]:.3f}"] if best is not None else []
    return figure_svg(title, draw, size=(NARROW, 0.27 * len(rows) + 1.0), said=said)


def board_svg(board: Board) -> str:
    """The main scores of an environment as an `<svg>` element."""

    def draw(axes: Any) -> None:
        _draw_entries(axes, board, MUTED, LINES[0], INK)
        axes.set_xlabel(board.main_name, fontsize=9, color=INK)

    return figure_svg(
        f"{board.env_id}: {board.main_name}",
        draw,
        size=(NARROW, 0.27 * len(board.entries) + 1.0),
        said=[f"{entry.name} {entry.outcome.main_score.value:.3f}" for entry in board.entries],
    )


def write_plot(boards: Sequence[Board], stem: Path) -> list[Path]:
    """Write the main scores of all environments as `stem`.svg and `stem`.png, and return these paths."""
    heights = [len(board.entries) + 1.6 for board in boards]
    layout: dict[str, Any] = {"squeeze": False, "gridspec_kw": {"height_ratios": heights, "hspace": 0.65}}
    paths = [stem.with_suffix(suffix) for suffix in (".svg", ".png")]
    with matplotlib.rc_context({**FONTS, "svg.hashsalt": "leaderboard"}):
        figure, panels = plt.subplots(len(boards), 1, figsize=(8.0, 0.24 * sum(heights)), **layout)
        try:
            for board, axes in zip(boards, panels[:, 0], strict=True):
                _draw_entries(axes, board, PRINTED_MUTED, PRINTED_ACCENT, PRINTED_INK)
                axes.set_title(f"{board.env_id}: {board.main_name}", loc="left", fontsize=10, color=PRINTED_INK)
                axes.grid(axis="x", color=PRINTED_GRID, linewidth=0.8)
                axes.spines[["top", "right", "left"]].set_visible(False)
            for path in paths:
                # No date: the same scores give the same file.
                metadata = {"Date": None} if path.suffix == ".svg" else None
                figure.savefig(path, format=path.suffix[1:], dpi=150, bbox_inches="tight", metadata=metadata)
        finally:
            plt.close(figure)
    return paths


def _draw_entries(axes: Any, board: Board, plain: str, accent: str, ink: str) -> None:
    """Draw the main scores of a board from top to bottom; policies in `accent`."""
    colours = (plain if entry.kind == "baseline" else accent for entry in board.entries)
    _draw_scores(axes, [(e.name, e.outcome.main_score, c) for e, c in zip(board.entries, colours, strict=True)], ink)
    if board.entries[0].outcome.main == "brier_skill":
        axes.axvline(0, color=plain, linewidth=0.8, linestyle=(0, (4, 3)))


def _draw_scores(axes: Any, rows: Sequence[tuple[str, Score, str]], ink: str) -> None:
    """Draw scores with their intervals from top to bottom; a row is a name, a score and a colour."""
    for place, (_, score, colour) in zip(range(len(rows), 0, -1), rows, strict=True):
        axes.plot([score.low, score.high], [place] * 2, color=colour, linewidth=1.6)
        axes.plot(score.value, place, "o", color=colour, markersize=5)
    axes.set_yticks(range(len(rows), 0, -1), [_plain(name) for name, *_ in rows], fontsize=8)
    axes.set_ylim(0.4, len(rows) + 0.6)
    axes.tick_params(axis="both", labelsize=8, colors=ink)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
