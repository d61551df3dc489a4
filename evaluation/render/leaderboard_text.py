"""A leaderboard as text: tables for a terminal of 80 columns, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..bootstrap import Score
from ..leaderboard import Board, Entry, Leaderboard, Versus

SMALL_P = 0.001


def leaderboard_tables(result: Leaderboard) -> RenderableType:
    """One table for every environment; its main score with the 95 % interval, others without."""
    parts: list[RenderableType] = []
    for board in result.boards:
        parts += [_table(board), *(Text(f"- {sentence(one, board)}") for one in board.versus), Text("")]
    parts += [Text(f"- {env_id} left out: {reason}") for env_id, reason in result.skipped.items()]
    parts += [Text(f"- {note}") for note in result.notes]
    return Group(*parts)


def _table(board: Board) -> Table:
    # Examples and not papers: both orders of a pair are two.
    title = Text(f"{board.env_id}  ", style="bold")
    title.append(f"{board.n:,} examples", style="dim")
    table = Table(title=title, title_justify="left", title_style="", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("", max_width=30, overflow="fold")
    for heading in (board.main_name, *_headings(board)):
        table.add_column(heading, no_wrap=True, header_style="dim", justify="right")
    for entry in board.entries:
        cells = (entry.name, str(entry.outcome.main_score), *_others(entry, board))
        table.add_row(*cells, style=None if entry.kind == "baseline" else "bold")
    return table


def _headings(board: Board) -> list[str]:
    if board.env_class.asks_for == "number":
        return ["accuracy", "MCC"]
    return ["accuracy" if board.main_name != "accuracy" else "macro-F1", "MCC", "AUROC"]


def _others(entry: Entry, board: Board) -> list[str]:
    scores = entry.outcome.scores
    first = scores.macro_f1 if board.main_name == "accuracy" else scores.accuracy
    found: list[Score | None] = [first, scores.mcc]
    if board.env_class.asks_for != "number":
        found.append(entry.outcome.discrimination.auroc if entry.outcome.discrimination else None)
    return ["" if one is None else f"{one.value:z.3f}" for one in found]


def sentence(one: Versus, board: Board) -> str:
    """A comparison in words; without McNemar's test where examples are not independent: both orders of a pair."""
    p, gap = one.labels.mcnemar_p, one.reward_difference
    text = (
        f"{one.first} against {one.second}: reward {gap.signed}, right alone "
        f"{one.labels.n_only_first_right} : {one.labels.n_only_second_right}"
    )
    if board.env_class.presentations > 1:
        return text
    return f"{text}, McNemar p {'<' if p < SMALL_P else '='} {max(p, SMALL_P):.3f}"


def leaderboard_markdown(result: Leaderboard, command: str) -> str:
    """The same as Markdown, with how it was made."""
    card, options = result.card, result.options
    lines = [
        "# Leaderboard",
        "",
        f"Dataset `{options.dataset}` (content hash `{card['content_hash'][:16]}`), {options.split} split"
        + (f", at most {options.max_examples:,} examples for each environment" if options.max_examples else "")
        + f", seed {options.seed}. Brackets: 95 % bootstrap intervals over examples.",
        "",
        "```",
        command,
        "```",
        "",
    ]
    for board in result.boards:
        lines += [f"## {board.env_id}", "", f"{board.n:,} examples; sorted as asked, baselines first.", ""]
        headings = ["", board.main_name, *_headings(board), "answered", "mean reward"]
        rows = [
            [
                _cell(entry.name),
                str(entry.outcome.main_score),
                *_others(entry, board),
                f"{entry.outcome.scores.answered:.1%}",
                f"{entry.outcome.reward.value:z.3f}",
            ]
            for entry in board.entries
        ]
        lines += _markdown(headings, rows)
        lines += [f"- {_cell(sentence(one, board))}" for one in board.versus]
        lines += [""] if board.versus else []
    lines += [f"- {env_id} left out: {reason}" for env_id, reason in result.skipped.items()]
    lines += [f"- {_cell(note)}" for note in result.notes]
    return "\n".join(lines).rstrip() + "\n"


def _markdown(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    headings = list(headings)
    marks = ["---", *["---:"] * (len(headings) - 1)]
    return [*(f"| {' | '.join(row)} |" for row in (headings, marks, *rows)), ""]


def _cell(text: str) -> str:
    """Text that cannot break a table or become markup."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
