"""The results of further examinations (contamination, flips, consistency) for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

FLIP_COLUMNS = ("before", "after", "net_gain", "right_to_wrong", "wrong_to_right", "held", "followed")


def probe_tables(name: str, found: dict[str, Any]) -> list[RenderableType]:
    """Tables of one examination, as it was written to its file.

    Parameters
    ----------
    name : "contamination" | "flips" | "consistency"
    found : dict
        What `contamination_report`, `flip_report` or `consistency_report` returned.
    """
    return {"contamination": _contamination, "flips": _flips, "consistency": _consistency}[name](found)


def _score(found: dict[str, Any] | None, digits: int = 2) -> str:
    if found is None or found["value"] is None:
        return "-"
    if found["low"] is None:
        return f"{found['value']:z.{digits}f}"
    return f"{found['value']:z.{digits}f} [{found['low']:z.{digits}f}, {found['high']:z.{digits}f}]"


def _table(title: str, *columns: str) -> Table:
    # Titles of papers and tasks are not markup.
    table = Table(title=Text(title), title_justify="left", box=None, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at == 0 else "right", no_wrap=at == 0)
    return table


def _contamination(found: dict[str, Any]) -> list[RenderableType]:
    table = _table("Contamination", "papers", "n", "accuracy", "macro-F1")
    groups = {"all": found["scores"]}
    if found["cutoff"]:
        cutoff = found["cutoff"]["cutoff"]
        groups |= {f"{name} {cutoff}": row for name, row in sorted(found["cutoff"]["scores"].items(), reverse=True)}
    titles = found["titles"]
    if titles["summary"]:
        groups |= {f"title {name.replace('_', ' ')}": row for name, row in titles["scores_known"].items()}
    groups["names, acronyms, numbers masked"] = found["anonymised"]["scores"]["anonymised"]
    if found["duplicates"]["near_duplicates"]:
        groups |= {f"{name} of training papers": row for name, row in found["duplicates"]["scores"].items()}
    for name, row in groups.items():
        table.add_row(name, f"{row['n']:,}", _score(row["accuracy"]), _score(row["macro_f1"]))
    lines = [_title_line(titles)]
    drop = found["anonymised"]["plain_minus_anonymised"]["accuracy_difference"]
    lines.append(f"- masking costs {_score(drop, 3)} accuracy; {found['anonymised']['same_answer']:.0%} same answers")
    twins = found["duplicates"]
    lines.append(
        f"- {twins['near_duplicates']:,} of {twins['test_papers']:,} papers resemble one of {twins['train_papers']:,} "
        f"training papers by {twins['threshold']:g} or more"
    )
    return [table, *map(Text, lines)]


def _title_line(titles: dict[str, Any]) -> str:
    summary = titles["summary"]
    if summary is None:
        return f"- titles: none of {titles['too_short']:,} is long enough to be completed"
    verdict = "the model knows these papers" if summary["memorised"] else "no sign that the model knows these papers"
    return (
        f"- titles: {summary['known']['value']:.1%} of {summary['probed']:,} completed word for word, "
        f"{summary['control_known']['value']:.1%} by chance: {verdict}"
    )


def _flips(found: dict[str, Any]) -> list[RenderableType]:
    shown: list[RenderableType] = []
    for name, one in found["challengers"].items():
        table = _table(
            f"Under challenge by {name} ({one['unchallenged']:,} of {one['episodes']:,} episodes ended before it)",
            "argued for",
            "n",
            *(column.replace("_", " ") for column in FLIP_COLUMNS),
        )
        kinds = {"argued": "any label", "truth": "the truth", "wrong": "a wrong one", "control": "nothing"}
        for kind, row in one["rows"].items():
            values = ("-" if row[c]["value"] is None else f"{row[c]['value']:z.2f}" for c in FLIP_COLUMNS)
            table.add_row(kinds[kind], f"{row['n']:,}", *values)
        shown.append(table)
        kinds_apart = [row for kind, row in one["rows"].items() if kind != "argued"]
        silent = sum(row["n"] * (1 - row["answered"]["value"]) for row in kinds_apart)
        n = sum(row["n"] for row in kinds_apart)
        shown.append(Text(f"- {silent:.0f} of {n:,} challenged episodes ended without a final answer"))
        if one["gain_over_control"]:
            shown.append(Text(f"- arguments gain {_score(one['gain_over_control'], 3)} accuracy over the control"))
    return shown


def _consistency(found: dict[str, Any]) -> list[RenderableType]:
    words = found["wordings"]
    table = _table(f"Consistency over {words['wordings']} wordings ({words['n']:,} questions)", "", "")
    for name in ("accuracy", "agreement", "all_agree", "all_right"):
        table.add_row(name.replace("_", " "), _score(words[name], 3))
    table.add_row("answered", f"{words['answered']:.3f}")
    shown: list[RenderableType] = [table]
    if "orders" in found:
        own = found["orders"][0]
        both = _table(f"Both orders of {own['pairs']:,} pairs", "", "")
        for name in ("accuracy", "agreement", "both_right", "always_first", "always_second", "position_bias"):
            both.add_row(name.replace("_", " "), _score(own[name], 3))
        shown.append(both)
    return shown
