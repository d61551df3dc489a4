"""The dataset card: what is in a dataset, what is not, and how to make it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from huggingface_hub import DatasetCardData

from .atomic_files import write_text_atomically
from .paper import COLUMNS
from .splits import CUTOFF_VIEWS, SPLITS

# What a reader of the card should know about each rule; names are those of `works`, `snapshot`, `labelling`, `build`,
# `collect` and `sciscinet`.
REASONS = {
    "damaged_file": "rest of a damaged file",
    "missing_file": "file that the manifest lists and that is not there",
    "missing_record": "record that the manifest promises and that its file does not hold",
    "unlisted_record": "record beyond what the manifest promises (read all the same)",
    "not_json": "line that is not JSON",
    "not_an_object": "JSON that is not an object",
    "no_id": "no OpenAlex id",
    "no_year": "no publication year",
    "bad_year": "publication year outside 1800-2100",
    "future_year": "publication year more than a year after the record's last update",
    "xpac": "expansion pack (is_xpac), which OpenAlex leaves out by default",
    "repeated_id": "older record of a work that is there in a newer one",
    "merged_id": "merged into another work",
    "deleted_id": "deleted by OpenAlex",
    "not_found": "unknown to OpenAlex",
    "not_focal": "collected as a reference or citing work only",
    "neighbourhood_cut": "cites a work whose citing works were not collected, so n_k would be too small",
    "no_title": "no title",
    "no_abstract": "no abstract",
    "paratext": "paratext (cover, table of contents, ...)",
    "retracted": "retracted",
    "withdrawn": "title or abstract says that it was retracted or withdrawn (rule: datasets/openalex/notices.py)",
    "not_an_article": "editorial, erratum, letter, review report, notice about another paper, ...",
    "other_language": "not in the language asked for",
    "window_not_closed": "citation window still open in the last complete year",
    "few_references": "too few references in the data",
    "few_citations": "too few citations inside the window",
    "cd_undefined": "CD index undefined",
    "cd_out_of_range": "published disruption outside [-1, 1]",
    "small_field_year": "field and year with too few papers for tertiles",
    "copy_of_earlier": "same DOI or near-identical title as an earlier paper (rule: datasets/near_duplicates.py)",
    "between_splits": "published between the splits, while training labels were still being made",
    "thinned_out": "left out of the training set so that its labels are equally common",
}


def write_card(out: Path, card: dict[str, Any]) -> None:
    """Write `README.md` and, last, `card.json` into a dataset folder: one that has it is whole."""
    write_text_atomically(out / "README.md", card_text(card))
    write_text_atomically(out / "card.json", json.dumps(card, indent=2) + "\n")


def card_text(card: dict[str, Any]) -> str:
    """The card as Markdown with the YAML head that Hugging Face reads."""
    rules, split = card["labels"], card["split"]
    views = {name: share for name, share in card.get("cutoff_views", {}).items() if share["papers"]}
    head = DatasetCardData(
        configs=[
            {
                "config_name": "default",
                "data_files": [{"split": name, "path": f"data/{name}-*.parquet"} for name in (*SPLITS, *views)],
            }
        ],
        task_categories=["text-classification"],
        tags=["science-of-science", "citation-graph"],
    )
    lines = [
        "---",
        head.to_yaml(),
        "---",
        "",
        "# Papers labelled by what later papers made of them",
        "",
        *_source(card.get("source")),
        _labels_sentence(rules),
        _windows_sentence(rules),
        _split_sentence(split, rules),
        *_balance_sentence(card),
        "",
        "| split | years | papers | disruptive | consolidating | neutral |",
        "|---|---|---:|---:|---:|---:|",
        *(_split_row(name, card["splits"][name]) for name in SPLITS),
        *(_split_row(name, share) for name, share in card.get("cutoff_views", {}).items()),
        "",
        *_cutoff(card),
        *_hits(card),
        *_novelty(card),
        *_as_recorded(card),
        *_ceiling(card.get("ceiling")),
        "## Columns",
        "",
        "| column | type | role | meaning |",
        "|---|---|---|---|",
        *(f"| `{name}` | {column.stored} | {column.role} | {column.meaning} |" for name, column in COLUMNS.items()),
        "",
        "Prompts show columns that are known at publication. Of the provenance they state only what a label means.",
        "",
        "## What was left out",
        "",
        f"{card['works_read']:,} records read, {card['works_in_graph']:,} of them used. {_citations(card)}",
        "",
        "| reason | count | what it means |",
        "|---|---:|---|",
        *_reason_rows("not used", card["works_dropped"]),
        *_reason_rows("without a label", card["not_labelled"]),
        "",
        "A work that fails several rules is counted under the first.",
        "",
        "## Make it again",
        "",
        "```",
        card["command"] or "(built from Python)",
        "```",
        "",
        f"Content hash (SHA-256 over every field of every paper): `{card['content_hash']}`. `scisci-gym data verify` "
        "computes it again, with the counts above and a sample of the labels.",
        "",
    ]
    return "\n".join(lines)


def _source(source: dict[str, Any] | None) -> list[str]:
    return [] if source is None else [source["sentence"], ""]


def _citations(card: dict[str, Any]) -> str:
    if "citations" not in card:
        return "There is no citation graph here: the scores are the published ones."
    citations = card["citations"]
    return (
        f"The citation graph has {citations['kept']:,} citations. Of {citations['edges']:,} references, "
        f"{citations['unknown']:,} point to works that are not in the data, {citations['duplicates']:,} are repeats, "
        f"{citations['self_citations']:,} cite the paper itself; {citations['left_out']:,} cite a later year "
        "(left out: they are of a later version of the paper, and its labels must not depend on later papers)."
    )


def _labels_sentence(rules: dict[str, Any]) -> str:
    if rules["scheme"] == "threshold":
        cut = f"disruptive above {rules['threshold']:g}, consolidating below -{rules['threshold']:g}, neutral otherwise"
    else:
        cut = (
            "by rank among the labelled papers of its field and year: disruptive where at least two thirds of them "
            "have a lower value, consolidating where at least two thirds have a higher one, neutral otherwise"
        )
    if rules.get("published"):
        return (
            f"Labels: the published disruption score, which looks at all later citations, {cut}. Labelled papers are "
            f"at least {rules['window']} years old at the end of {rules['last_complete_year']}, with at least "
            f"{rules['min_references']} references and {rules['min_citations']} citations."
        )
    return (
        f"Labels: CD index over {rules['window']} years (Funk & Owen-Smith 2017), {cut}. Labelled papers have at least "
        f"{rules['min_references']} references in the data and {rules['min_citations']} citations in a window that "
        f"closed by the end of {rules['last_complete_year']}."
    )


def _windows_sentence(rules: dict[str, Any]) -> str:
    if rules.get("published"):
        return "Novelty compares a paper with those of its year, so nothing later takes part in it."
    return (
        f"Windows: the CD index looks {rules['window']} years ahead, and so do citation percentiles and hits; novelty "
        "compares a paper with those of its year, so nothing later takes part in it."
    )


def _split_sentence(split: dict[str, Any], rules: dict[str, Any]) -> str:
    if split["kind"] == "closed":
        return (
            f"Split by time: the last training or validation label was complete in "
            f"{split['validation_to'] + rules['window']}, before the first test paper of {split['test_from']}."
        )
    warning = "Split by publication year only: **training labels use citations made after test papers appeared**"
    if rules.get("published"):
        return f"{warning} (the published score has no window; test papers start in {split['test_from']})."
    return (
        f"{warning} (windows of {rules['window']} years reach {split['validation_to'] + rules['window']}, test papers "
        f"start in {split['test_from']})."
    )


def _balance_sentence(card: dict[str, Any]) -> list[str]:
    if not card.get("balanced_train"):
        return []
    thinned = card["not_labelled"].get("thinned_out", 0)
    return [
        f"The training set was thinned until its labels are equally common ({thinned:,} papers left out); validation "
        "and test have their natural shares."
    ]


def _split_row(name: str, share: dict[str, Any]) -> str:
    labels, papers = share["labels"], share["papers"]
    cells = " | ".join(f"{labels[label]:,} ({labels[label] / papers:.0%})" if papers else "0" for label in labels)
    years = f"{share['years'][0]}-{share['years'][1]}" if papers else "-"
    return f"| {name} | {years} | {papers:,} | {cells} |"


def _cutoff(card: dict[str, Any]) -> list[str]:
    if "cutoff" not in card:
        return []
    return [
        f"`{CUTOFF_VIEWS[0]}` and `{CUTOFF_VIEWS[1]}` are the test papers published before the knowledge cutoff of "
        f"{card['cutoff']} and since. A paper of the year of the cutoff whose day is not known counts as before.",
        "",
    ]


def _hits(card: dict[str, Any]) -> list[str]:
    if "hits" not in card:
        return []
    return [
        "Hits: a paper is one when at least 95 % of all papers of its field and year are cited less often. Labelled "
        f"papers have a minimum of citations, so {card['hits']['share_of_train']:.1%} of the training papers are hits; "
        "prompts say so.",
        "",
    ]


def _as_recorded(card: dict[str, Any]) -> list[str]:
    """What the source may have learned after the day of publication."""
    if card["labels"].get("published"):
        return []
    venues = sum(card["splits"][name]["with_venue"] for name in SPLITS)
    papers = sum(card["splits"][name]["papers"] for name in SPLITS)
    return [
        "Title, abstract, field and venue are those of the source's record at its last update. **The venue may have "
        f"been learned after publication**: {venues:,} of {papers:,} papers have one, and a preprint that a journal "
        "took later is shown with that journal. A field is assigned by the source, for OpenAlex from title, abstract, "
        "venue and citations. Reference lists can be those of a later version; prompts show only references that "
        "certainly appeared before the paper (an earlier year, or an earlier day of the same year), without marks such "
        'as "RETRACTED:".',
        "",
    ]


def _novelty(card: dict[str, Any]) -> list[str]:
    novelty = card.get("novelty")
    if novelty is None:
        return []
    if "null" not in novelty:
        return [novelty["sentence"], ""]
    return [
        f"Novelty: atypicality of the venues cited together (Uzzi et al. 2013; {novelty['null']} null, "
        f"{novelty['samples']} samples, seed {novelty['seed']}), as shares of the papers of the same year; "
        f"{novelty['scored']:,} works have a score; {novelty['withheld']:,} of these have no novelty label, because it "
        "changes within the sampling error of the score. In the median year two halves of the samples agree to a rank "
        f"correlation of {_median_agreement(novelty, 2)} (z10) and {_median_agreement(novelty, 3)} (z_median).",
        "",
    ]


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


def _median_agreement(novelty: dict[str, Any], column: int) -> str:
    agreement = sorted(row[column] for row in novelty["agreement"] if row[column] is not None)
    return f"{agreement[len(agreement) // 2]:.3f}" if agreement else "(unknown)"
