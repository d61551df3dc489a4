"""The page of an experiment, a study or the demo, in sections: one HTML file, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...evaluation.render.pages import render_page

BEST = "best reachable"
"""Name of the row with the best score that can be reached."""


@dataclass(frozen=True)
class Table:
    """Headings and rows of cells: texts, numbers, `Score`s, or None for an empty cell.

    `style` is "text" for words that may break, and "scores" to mark the rows of RL and of the best reachable score.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    style: Literal["", "text", "scores"] = ""


@dataclass(frozen=True)
class Transcript:
    """One episode: the prompt, the answer, the true label and the reward."""

    title: str
    prompt: str
    answer: str
    expected: str
    reward: float


@dataclass(frozen=True)
class Section:
    """A part of the page, which is left out if it has neither rows nor pictures (``<svg>`` elements) nor episodes; so
    is a table without rows.

    The legend names the lines of all pictures. The note stands below everything else but the link, a text and a path
    relative to the page. A folded section is shown on a click only.
    """

    title: str
    tables: Sequence[Table] = ()
    note: str = ""
    pictures: Sequence[str] = ()
    legend: Sequence[str] = ()
    episodes: Sequence[Transcript] = ()
    folded: bool = False
    link: tuple[str, str] | None = None


def write_experiment_page(
    out: Path,
    name: str,
    title: str,
    lead: str,
    verdict: Sequence[str],
    sections: Sequence[Section],
    note: str = "",
    picture: str = "",
) -> Path:
    """Write the page, which `picture` (an ``<svg>`` element), `verdict` and `note` open, and return its path; see
    `render_page`."""
    filled = [each for each in sections if each.pictures or each.episodes or any(table.rows for table in each.tables)]
    return render_page(
        "experiment.html.j2",
        out,
        name=name,
        title=title,
        lead=lead,
        verdict=verdict,
        sections=filled,
        note=note,
        picture=picture,
        best=BEST,
    )
