"""A tiny base model for a dataset: `init_model` on the prompts of its unlabelled papers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...datasets.openalex.snapshot import read_works
from ...datasets.paper import Paper
from ...datasets.store import load_card, load_papers
from ...engine.tiny.init_model import InitReport, init_model
from ...envs.disruption import DisruptionEnv
from ...envs.kit.answers import format_answer

MAX_PROMPTS = 12_000


def init_tiny_model(
    out: Path,
    works: pa.Table,
    dataset: Path,
    *,
    options: dict[str, Any],
    seed: int,
    progress: bool = True,
    **sizes: Any,
) -> InitReport:
    """Make a tiny model in `out`, pre-trained on papers up to the last validation year and on no label.

    Its documents are the prompts of `DisruptionEnv`, each ended by a label drawn at random. Validation labels are used
    for one thing: a linear probe of the hidden states decides whether another round of pre-training is needed.

    Parameters
    ----------
    works : pyarrow.Table with the works table's columns
    dataset : Path
        The dataset that was built from the works.
    options : dict
        Options of the environment, which decide the prompt.
    sizes
        Passed on to `init_model`.
    """
    last_year = load_card(dataset)["split"]["validation_to"]
    labels = DisruptionEnv.labels
    prompts = unlabelled_prompts(works, last_year, options, seed)
    validation = load_papers(dataset, "validation")
    probe = [(DisruptionEnv(paper, **options).question(), str(paper.disruption_label)) for paper in validation]
    return init_model(
        out,
        prompts,
        answers=[format_answer(label) for label in labels],
        whole_words=("answer", *labels),
        seed=seed,
        probe=probe,
        progress=progress,
        **sizes,
    )


def works_of(dataset: Path) -> pa.Table:
    """The works that a synthetic dataset was built from; of another dataset its own training papers, as works."""
    source = dataset / "source" / "works"
    if source.is_dir():
        return read_works(source, progress=False)[0]
    papers = load_papers(dataset, "train")
    return pa.table(
        {
            "work_id": [int(paper.openalex_id[1:]) for paper in papers],
            "title": [paper.title for paper in papers],
            "abstract": [paper.abstract for paper in papers],
            "publication_year": [paper.publication_year for paper in papers],
            "field": [paper.primary_field for paper in papers],
            "venue": [paper.venue for paper in papers],
        }
    )


def unlabelled_prompts(works: pa.Table, last_year: int, options: dict[str, Any], seed: int) -> list[str]:
    """Prompts of works with an abstract that were published up to `last_year`; at most 12,000, drawn by the seed."""
    columns = ("work_id", "title", "abstract", "publication_year", "field", "venue")
    published = works.select(columns).filter(pa.array(works["publication_year"].to_numpy() <= last_year))
    rows = [row for row in published.to_pylist() if row["title"] and row["abstract"]]
    random.Random(seed).shuffle(rows)
    return [_prompt(row, options) for row in rows[:MAX_PROMPTS]]


def _prompt(row: dict[str, Any], options: dict[str, Any]) -> str:
    # The environment needs a label to grade against; the prompt does not depend on it.
    paper = Paper(
        openalex_id=f"W{row['work_id']}",
        title=row["title"],
        abstract=row["abstract"],
        publication_year=row["publication_year"],
        primary_field=row["field"],
        venue=row["venue"],
        disruption_label="neutral",
        label_scheme="quantile",
    )
    return DisruptionEnv(paper, **options).question()
