"""`evaluation.html`: what stands behind the scores of an evaluation, in one file without script or network."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...envs.kit.base import SciSciEnv
from ...envs.registry import make
from ..ask import Answer
from ..baselines import examples_of
from ..leaderboard import Board, Entry, Leaderboard
from .leaderboard_plot import board_svg
from .leaderboard_text import sentence
from .pages import render_page
from .reliability import reliability_svg

ERRORS, RELIABILITY = 5, 4
FURTHER = {
    "contamination.json": "Contamination",
    "flips.json": "Under challenge",
    "consistency.json": "Consistency",
    "held_out_nll.json": "Held-out negative log-likelihood",
    "public.json": "Public benchmarks",
}
"""Results that other evaluations may have left beside this one, and their headings."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, for people to read."""

    title: str
    prompt: str
    answer: str
    expected: str
    predicted: str
    reward: float


@dataclass(frozen=True)
class Section:
    """One environment of the page."""

    board: Board
    picture: str
    shown: Entry
    reliability: list[str]
    years: list[int]
    sentences: list[str]
    mistakes: list[Mistake]


def write_page(result: Leaderboard, path: Path, made: dict[str, Any]) -> Path:
    """Write the page of an evaluation and return its path.

    Parameters
    ----------
    made : dict
        How it was made, as in `Leaderboard.to_json`.
    """
    return render_page(
        "evaluation.html.j2",
        path,
        result=result,
        card=result.card,
        made=made,
        sections=[_section(board, result) for board in result.boards],
        further=[*further(result.extras), *further(_beside(path.parent, result.options.split))],
    )


def _section(board: Board, result: Leaderboard) -> Section:
    learned = [entry for entry in board.entries if entry.kind != "baseline"]
    shown = board.best_policy or board.best_baseline
    # Policies first; of the baselines those that are no constants.
    drawn = [*learned, *(entry for entry in board.entries[::-1] if entry.kind == "baseline")]
    return Section(
        board,
        board_svg(board),
        shown,
        [
            reliability_svg(entry.name, entry.outcome.calibration)
            for entry in drawn
            if entry.outcome.calibration is not None and sum(one.n > 0 for one in entry.outcome.calibration.bins) > 1
        ][:RELIABILITY],
        sorted({one.year for entry in board.entries for one in entry.outcome.years}),
        [sentence(one, board) for one in board.versus],
        asyncio.run(mistakes(board, shown, result)),
    )


async def mistakes(board: Board, entry: Entry, result: Leaderboard) -> list[Mistake]:
    """Some wrong answers of an entry: the ones it was surest of, or without probabilities some spread over time."""
    wrong = [answer for answer in entry.answers if answer.predicted != answer.expected]
    labels = board.env_class.labels

    def certainty(answer: Answer) -> float:
        given = answer.probabilities
        return given[labels.index(answer.predicted)] if given and answer.predicted in labels else 0.0

    if any(answer.probabilities for answer in wrong):
        chosen = sorted(wrong, key=certainty, reverse=True)[:ERRORS]
    else:
        chosen = wrong[:: max(1, len(wrong) // ERRORS)][:ERRORS]
    options = entry.source.get("options", {})
    examples = examples_of(board.env_id, result.options.dataset, result.options.split)
    papers = {env.example_id: env.papers for env in examples.test()}
    found = []
    for answer in chosen:
        env = make(board.env_id, *papers[answer.example_id], **options)
        found.append(
            Mistake(
                f"{answer.example_id.removeprefix(board.env_id + ':')} ({answer.year})",
                await _first_message(env),
                answer.text,
                answer.expected,
                answer.predicted,
                answer.reward,
            )
        )
    return found


async def _first_message(env: SciSciEnv) -> str:
    return "\n".join(str(message["content"]) for message in await env.initial_observation())


def _beside(folder: Path, split: str) -> dict[str, Any]:
    """Results of other evaluations of the same split that lie in the same folder."""
    paths = [folder / name for name in FURTHER]
    found = {path.stem: json.loads(path.read_text()) for path in paths if path.is_file()}
    return {name: one for name, one in found.items() if one.get("split", split) == split}


@dataclass(frozen=True)
class Further:
    """A result as tables: headings, rows of cells."""

    title: str
    tables: list[tuple[str, list[str], list[list[Any]]]]


def further(results: dict[str, Any]) -> list[Further]:
    """Results of any shape as tables, so that a new kind of evaluation needs no new template."""
    titles = {Path(name).stem: title for name, title in FURTHER.items()}
    return [
        Further(titles.get(name, name.replace("_", " ").capitalize()), tables_of(found))
        for name, found in results.items()
        if found
    ]


def tables_of(found: Any, caption: str = "") -> list[tuple[str, list[str], list[list[Any]]]]:
    """Tables of a JSON structure: plain values as facts, rows of like keys as one table, the rest table by table.

    A score (value, low, high) is one cell.
    """
    if isinstance(found, list):
        found = {str(at + 1): one for at, one in enumerate(found)}
    if not isinstance(found, dict):
        return [(caption, ["", ""], [["", found]])]
    facts = {name: value for name, value in found.items() if _is_cell(value)}
    deeper = {name: value for name, value in found.items() if not _is_cell(value)}
    tables = []
    if facts:
        tables.append((caption, ["", ""], [[_words(name), _cell(value)] for name, value in facts.items()]))
    rows = {name: value for name, value in deeper.items() if isinstance(value, dict)}
    flat = {name: value for name, value in rows.items() if all(map(_is_cell, value.values()))}
    columns = list(dict.fromkeys(column for value in flat.values() for column in value))
    if len(flat) > 1 and all(set(value) == set(columns) for value in flat.values()):
        body = [[_words(name), *(_cell(value[column]) for column in columns)] for name, value in flat.items()]
        tables.append((caption, ["", *map(_words, columns)], body))
        deeper = {name: value for name, value in deeper.items() if name not in flat}
    for name, value in deeper.items():
        tables += tables_of(value, f"{caption}: {_words(name)}" if caption else _words(name))
    return tables


def _words(name: str) -> str:
    return name.replace("_", " ")


def _is_score(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"value", "low", "high"}


def _is_cell(value: Any) -> bool:
    return _is_score(value) or not isinstance(value, dict | list) or value in ({}, [])


def _cell(value: Any) -> str:
    if _is_score(value):
        parts = ["-" if value[name] is None else f"{value[name]:z.3f}" for name in ("value", "low", "high")]
        return f"{parts[0]} [{parts[1]}, {parts[2]}]"
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, float):
        return f"{value:z.4g}"
    return str(value)
