"""The study in one picture: macro-F1 of every arm, its interval, and its seeds."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from .result import LINEAR, StudyResult

INK, MUTED, ACCENT, PLAIN = "#1b1f24", "#6b7480", "#0b66b5", "#8a929c"


def write_picture(result: StudyResult, path: Path) -> None:
    """Draw arms from top to bottom as PNG: a bar of the 95 % interval, a dot for the mean over seeds, a small ring for
    every seed; dashed lines for TF-IDF with logistic regression and for the best that can be reached, if it is known.
    """
    rows = [row for row in result.rows if row.name != LINEAR]
    figure, axes = plt.subplots(figsize=(8.0, 0.44 * len(rows) + 1.3))
    for at, row in enumerate(rows):
        place = len(rows) - at
        colour = ACCENT if "RL" in row.title else PLAIN
        axes.plot([row.greedy.low, row.greedy.high], [place] * 2, color=colour, linewidth=5, alpha=0.35)
        if len(row.by_seed) > 1:
            axes.plot(row.by_seed, [place] * len(row.by_seed), "o", color=colour, markersize=5, fillstyle="none")
        axes.plot(row.greedy.value, place, "o", color=colour, markersize=7)
        axes.annotate(
            f"{row.greedy.value:.3f}", (1.01, place), xycoords=("axes fraction", "data"), va="center", color=INK
        )
    levels = [(LINEAR, line.greedy.value)] if (line := result.row(LINEAR)) else []
    if ceiling := result.card.get("ceiling"):
        levels.append(("best reachable", ceiling[result.plan.split]["macro_f1"]))
    for height, (name, value) in enumerate(levels):
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"{name} {value:.3f} ",
            (value, len(rows) + 0.62 + 0.42 * height),
            ha="right",
            va="bottom",
            color=MUTED,
            fontsize=9,
        )
    axes.set_yticks(range(len(rows), 0, -1), [row.title for row in rows])
    axes.set_ylim(0.4, len(rows) + 0.6 + 0.42 * len(levels))
    seeds = len(result.plan.seeds)
    axes.set_xlabel(f"macro-F1 on {result.papers:,} {result.plan.split} papers; mean, 95 % interval, {seeds} seeds")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.savefig(path, format="png", dpi=150, bbox_inches="tight")
    plt.close(figure)
