"""Learning curves as inline SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

INK, MUTED, ACCENT = "#1b1f24", "#8a929c", "#0b6bcb"


def curve_svg(
    rows: Sequence[dict[str, Any]],
    key: str,
    title: str,
    *,
    levels: Sequence[tuple[str, float]] = (),
    mark: int | None = None,
    limits: tuple[float, float] | None = None,
) -> str:
    """One metric of a run over its steps, as an `<svg>` element.

    Parameters
    ----------
    rows : rows of `metrics.jsonl`; those without `key` are passed over
    levels : (name, value) pairs drawn as horizontal lines
    mark : step to mark, such as the checkpoint that was chosen
    limits : range of the vertical axis
    """
    points = [(int(row["step"]), float(row[key])) for row in rows if key in row]
    figure, axes = plt.subplots(figsize=(5.2, 2.9))
    steps, values = [step for step, _ in points], [value for _, value in points]
    axes.plot(steps, values, color=ACCENT, linewidth=1.8, marker="o" if len(points) < 20 else None, markersize=4)
    for name, value in levels:
        axes.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(name, (0.02, value), xycoords=("axes fraction", "data"), va="bottom", color=MUTED, fontsize=8)
    if mark is not None and mark in steps:
        axes.plot([mark], [values[steps.index(mark)]], "o", color=ACCENT, markersize=9, fillstyle="none")
    if limits:
        axes.set_ylim(*limits)
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel("step", fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    buffer = io.StringIO()
    # Fixed ids and no date: the same run gives the same report.
    with matplotlib.rc_context({"svg.hashsalt": key, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
