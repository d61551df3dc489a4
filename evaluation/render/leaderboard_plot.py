"""A leaderboard as a picture: a dot with its interval for everyone who took part, a panel for every environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from ..leaderboard import Board
from .curves import INK as PAGE_INK
from .curves import LINES, MUTED, figure_svg

INK, PLAIN, ACCENT, RULE = "#1b1f24", "#6b7480", "#0b66b5", "#e4e7eb"


def write_plot(boards: Sequence[Board], stem: Path) -> list[Path]:
    """Write `stem`.svg and `stem`.png and return their paths."""
    heights = [len(board.entries) + 1.6 for board in boards]
    paths = [stem.with_suffix(suffix) for suffix in (".svg", ".png")]
    with matplotlib.rc_context({"svg.hashsalt": "leaderboard", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure, panels = plt.subplots(
            len(boards),
            1,
            figsize=(8.0, 0.24 * sum(heights)),
            squeeze=False,
            gridspec_kw={"height_ratios": heights, "hspace": 0.65},
        )
        try:
            for board, axes in zip(boards, panels[:, 0], strict=True):
                draw_entries(axes, board, PLAIN, ACCENT, INK)
                axes.set_title(f"{board.env_id}: {board.main_name}", loc="left", fontsize=10, color=INK)
                axes.grid(axis="x", color=RULE, linewidth=0.8)
                for side in ("top", "right", "left"):
                    axes.spines[side].set_visible(False)
            for path in paths:
                # No date: the same scores give the same file.
                metadata = {"Date": None} if path.suffix == ".svg" else None
                figure.savefig(path, format=path.suffix[1:], dpi=150, bbox_inches="tight", metadata=metadata)
        finally:
            plt.close(figure)
    return paths


def board_svg(board: Board) -> str:
    """One panel as an `<svg>` element in the colours of a report."""

    def draw(axes: Any) -> None:
        draw_entries(axes, board, MUTED, LINES[0], PAGE_INK)
        axes.set_xlabel(board.main_name, fontsize=9, color=PAGE_INK)

    return figure_svg(f"{board.env_id}: {board.main_name}", draw, size=(5.2, 0.27 * len(board.entries) + 1.0))


def draw_entries(axes: Any, board: Board, plain: str, accent: str, ink: str) -> None:
    """Draw the main scores of a board from top to bottom; policies in `accent`."""
    names = []
    for at, entry in enumerate(board.entries):
        score, place = entry.outcome.main_score, len(board.entries) - at
        colour = plain if entry.kind == "baseline" else accent
        axes.plot([score.low, score.high], [place] * 2, color=colour, linewidth=1.6)
        axes.plot(score.value, place, "o", color=colour, markersize=5)
        # Matplotlib reads `$...$` as mathematics.
        names.append(entry.name.replace("$", r"\$"))
    if board.entries[0].outcome.main == "brier_skill":
        axes.axvline(0, color=plain, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(names), 0, -1), names, fontsize=8)
    axes.set_ylim(0.4, len(names) + 0.6)
    axes.tick_params(axis="both", labelsize=8, colors=ink)
    axes.tick_params(axis="y", length=0)
    axes.set_axisbelow(True)
