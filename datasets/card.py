"""The dataset card: what is in a dataset, what is not, and how to make it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .splits import SPLITS

# What a reader of the card should know about each rule; names are those of `works`, `snapshot`, `labelling`, `build`.
REASONS = {
    "damaged_file": "rest of a damaged file",
    "not_json": "line that is not JSON",
    "not_an_object": "JSON that is not an object",
    "no_id": "no OpenAlex id",
    "no_year": "no publication year",
    "bad_year": "publication year out of range",
    "repeated_id": "id seen before",
    "no_title": "no title",
    "no_abstract": "no abstract",
    "paratext": "paratext (cover, table of contents, ...)",
    "retracted": "retracted",
    "not_an_article": "editorial, erratum, letter, review report, ...",
    "other_language": "not in the language asked for",
    "window_not_closed": "citation window still open in the last complete year",
    "few_references": "too few references in the data",
    "few_citations": "too few citations inside the window",
    "cd_undefined": "CD index undefined",
    "small_field_year": "field and year with too few papers for tertiles",
    "copy_of_earlier": "same DOI or near-identical title as an earlier paper",
    "between_splits": "published between the splits, while training labels were still being made",
}


def write_card(out: Path, card: dict[str, Any]) -> None:
    """Write `card.json` and `README.md` into a dataset folder."""
    (out / "card.json").write_text(json.dumps(card, indent=2) + "\n")
    (out / "README.md").write_text(card_text(card))


def card_text(card: dict[str, Any]) -> str:
    """The card as Markdown with the YAML head that Hugging Face reads."""
    rules, split, citations = card["labels"], card["split"], card["citations"]
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        "  data_files:",
        *(f"  - split: {name}\n    path: data/{name}-*.parquet" for name in SPLITS),
        "task_categories:",
        "- text-classification",
        "tags:",
        "- science-of-science",
        "- citation-graph",
        "---",
        "",
        "# Papers labelled by what later papers made of them",
        "",
        _labels_sentence(rules),
        _split_sentence(split, rules["window"]),
        "",
        "| split | years | papers | disruptive | consolidating | neutral |",
        "|---|---|---:|---:|---:|---:|",
        *(_split_row(name, card["splits"][name]) for name in SPLITS),
        "",
        *_ceiling(card.get("ceiling")),
        "## What was left out",
        "",
        f"{card['works_read']:,} records read, {card['works_in_graph']:,} in the citation graph, "
        f"{citations['kept']:,} citations among them. Of {citations['edges']:,} references, {citations['unknown']:,} "
        f"point to works that are not in the data, {citations['duplicates']:,} are repeats, "
        f"{citations['self_citations']:,} cite the paper itself; {citations['from_the_past']:,} cite a later year "
        "(kept, they count as nobody's later citation).",
        "",
        "| reason | count | what it means |",
        "|---|---:|---|",
        *_reason_rows("not in the graph", card["works_dropped"]),
        *_reason_rows("in the graph, without a label", card["not_labelled"]),
        "",
        "A work that fails several rules is counted under the first.",
        "",
        "## Make it again",
        "",
        "```",
        card["command"] or "(built from Python)",
        "```",
        "",
        f"Content hash (SHA-256 over every field of every paper): `{card['content_hash']}`",
        "",
    ]
    return "\n".join(lines)


def _labels_sentence(rules: dict[str, Any]) -> str:
    if rules["scheme"] == "threshold":
        cut = f"disruptive above {rules['threshold']:g}, consolidating below -{rules['threshold']:g}, neutral otherwise"
    else:
        cut = "tertiles within field and year: top third disruptive, bottom third consolidating"
    return (
        f"Labels: CD index over {rules['window']} years (Funk & Owen-Smith 2017), {cut}. Labelled papers have at least "
        f"{rules['min_references']} references in the data and {rules['min_citations']} citations in a window that "
        f"closed by the end of {rules['last_complete_year']}."
    )


def _split_sentence(split: dict[str, Any], window: int) -> str:
    if split["kind"] == "closed":
        return (
            f"Split by time: the last training or validation label was settled in {split['validation_to'] + window}, "
            f"before the first test paper of {split['test_from']}."
        )
    return (
        "Split by publication year only: **training labels use citations made after test papers appeared** (windows of "
        f"{window} years reach {split['validation_to'] + window}, test papers start in {split['test_from']})."
    )


def _split_row(name: str, share: dict[str, Any]) -> str:
    labels = share["labels"]
    cells = " | ".join(f"{labels[label]:,} ({labels[label] / share['papers']:.0%})" for label in labels)
    return f"| {name} | {share['years'][0]}-{share['years'][1]} | {share['papers']:,} | {cells} |"


def _ceiling(ceiling: dict[str, Any] | None) -> list[str]:
    if ceiling is None:
        return []
    test = ceiling["test"]
    return [
        f"The wording tells the label with probability {ceiling['fidelity']:g}, so no reader can expect more. Reading "
        f"it perfectly gives accuracy {test['accuracy']:.3f} and macro-F1 {test['macro_f1']:.3f} on this test split.",
        "",
    ]


def _reason_rows(where: str, reasons: dict[str, int]) -> list[str]:
    return [f"| `{name}` | {count:,} | {where}: {REASONS.get(name, name)} |" for name, count in reasons.items()]
