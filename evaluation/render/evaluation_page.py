"""`evaluation.html`: scores, errors, reliability and further results in one file without script or network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ...envs.kit.episodes import run_sync
from ..ask import Answer
from ..leaderboard import Board, Entry, Leaderboard
from .pages import render_page
from .pictures import board_svg, reliability_svg
from .tables import ResultTable, result_tables, sentence

ERRORS, RELIABILITY = 5, 4
TITLES = {
    "held_out_nll": "Negative log-likelihood of the right answers",
    "pass_rates": "Pass rates of the examples",
    "public": "Public benchmarks",
    "inspect": "Inspect",
    "contamination": "Contamination",
    "flips": "Under challenge",
    "consistency": "Consistency",
}
"""Headings of the results that are not leaderboards."""


def write_page(result: Leaderboard, path: Path, made: dict[str, Any]) -> Path:
    """Write the page of an evaluation and return its path; `made` says how it was made, as in `Leaderboard.to_json`."""
    return render_page(
        "evaluation.html.j2",
        path,
        result=result,
        card=result.card,
        made=made,
        sections=[_section(board, result) for board in result.boards],
        further=_further(result, path.parent),
    )


def _section(board: Board, result: Leaderboard) -> dict[str, Any]:
    """One environment of the page."""
    policies = [entry for entry in board.entries if entry.kind != "baseline"]
    shown = board.best_policy or board.best_baseline
    # Policies first; of the baselines those that are no constants.
    drawn = [*policies, *(entry for entry in board.entries[::-1] if entry.kind == "baseline")]
    calibrated = [(entry.name, found) for entry in drawn if (found := entry.outcome.calibration) is not None]
    varied = [(name, found) for name, found in calibrated if sum(part.n > 0 for part in found.bins) > 1]
    return {
        "board": board,
        "picture": board_svg(board),
        "shown": shown,
        "reliability": [reliability_svg(name, found) for name, found in varied[:RELIABILITY]],
        "years": sorted({year.year for entry in board.entries for year in entry.outcome.years}),
        "sentences": [sentence(versus, board) for versus in board.versus],
        "mistakes": run_sync(_mistakes(board, shown, result)),
    }


async def _mistakes(board: Board, entry: Entry, result: Leaderboard) -> list[dict[str, Any]]:
    """Some wrong answers of an entry: the most certain ones, or without probabilities some spread over time."""
    wrong = [answer for answer in entry.answers if answer.predicted != answer.expected]
    labels = board.env_class.labels

    def certainty(answer: Answer) -> float:
        given = answer.probabilities
        return given[labels.index(answer.predicted)] if given and answer.predicted in labels else 0.0

    if any(answer.probabilities for answer in wrong):
        chosen = sorted(wrong, key=certainty, reverse=True)[:ERRORS]
    else:
        chosen = wrong[:: max(1, len(wrong) // ERRORS)][:ERRORS]
    asked = entry.source.get("options", {})
    benchmark = SciSciBenchmark(board.env_id, None, result.options.dataset, result.options.split, asked)
    envs = {env.example_id: env for env in benchmark.episodes()}
    mistakes = []
    for answer in chosen:
        messages = await envs[answer.example_id].initial_observation()
        prompt = "\n".join(str(message["content"]) for message in messages)
        title = f"{answer.example_id.removeprefix(board.env_id + ':')} ({answer.year})"
        mistakes.append({**vars(answer), "title": title, "prompt": prompt})
    return mistakes


def _further(result: Leaderboard, folder: Path) -> list[tuple[str, list[ResultTable]]]:
    """Further layers of the evaluation, and probes of the same split whose files lie in the same folder."""
    results = {name: found for name, found in result.extras.items() if found}
    for name in ("contamination", "flips", "consistency"):
        path = folder / f"{name}.json"
        if path.is_file():
            found = json.loads(path.read_text())
            if found["split"] == result.options.split:
                results[name] = found
    return [(TITLES[name], result_tables(name, found)) for name, found in results.items()]
