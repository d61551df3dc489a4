"""The dataset card: what is in a dataset, what is not, and how to make it again."""

import json
from pathlib import Path
from typing import Any

import jinja2
from huggingface_hub import DatasetCardData

from .atomic_files import write_text_atomically
from .paper import COLUMNS
from .splits import CUTOFF_VIEWS, SPLITS

TEMPLATE = Path(__file__).with_name("card.md.j2")
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
    "excluded": "the source says that it is to carry no label (column excluded)",
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
"""Why a record or a paper was left out: what a reader of the card should know about each reason."""


def write_card(out: Path, card: dict[str, Any]) -> None:
    """Write `README.md` and, last, `card.json` into a dataset folder: a folder with a `card.json` is complete."""
    write_text_atomically(out / "README.md", card_text(card))
    write_text_atomically(out / "card.json", json.dumps(card, indent=2) + "\n")


def card_text(card: dict[str, Any]) -> str:
    """The card as Markdown with the YAML head that Hugging Face reads."""
    views = [name for name, share in card.get("cutoff_views", {}).items() if share["papers"]]
    files = [{"split": name, "path": f"data/{name}-*.parquet"} for name in (*SPLITS, *views)]
    head = DatasetCardData(
        configs=[{"config_name": "default", "data_files": files}],
        task_categories=["text-classification"],
        tags=["science-of-science", "citation-graph"],
    )
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {
        "paragraph": lambda text: " ".join(text.split()) + "\n",
        "count": lambda number: f"{number:,}",
        "labels": lambda share: " | ".join(label_shares(share)),
    }
    return environment.from_string(TEMPLATE.read_text()).render(
        card=card,
        head=head.to_yaml(),
        splits={name: card["splits"][name] for name in SPLITS},
        views=CUTOFF_VIEWS,
        agreement=_median_agreement(card.get("novelty") or {}),
        columns=COLUMNS,
        reasons=REASONS,
    )


def label_shares(split: dict[str, Any]) -> list[str]:
    """How many papers of a split have each label, and which share of them that is, for tables."""
    papers = split["papers"]
    return [f"{number:,} ({number / papers:.0%})" if papers else "0" for number in split["labels"].values()]


def _median_agreement(novelty: dict[str, Any]) -> list[str]:
    """Rank correlation of z10, and of z_median, between halves of the null networks in the median year."""
    medians = []
    for column in (2, 3):
        agreement = sorted(row[column] for row in novelty.get("agreement", []) if row[column] is not None)
        medians.append(f"{agreement[len(agreement) // 2]:.3f}" if agreement else "(unknown)")
    return medians
