"""Which papers an integration shows: those of a dataset, or the built-in ones."""

from __future__ import annotations

import os

from ...datasets.paper import Paper
from ...datasets.store import load_papers
from ..kit.base import Example
from ..kit.samples import sample_papers
from ..registry import spec
from .cookbook_benchmarks import DATASET_VARIABLE


def papers_of(dataset: str | None, split: str) -> list[Paper]:
    """Papers of a built dataset: `dataset`, or the folder in `SCISCI_GYM_DATASET`, or the nine built-in papers."""
    folder = dataset or os.environ.get(DATASET_VARIABLE)
    return load_papers(folder, split) if folder else sample_papers()


def examples_of(env_id: str, dataset: str | None, split: str, seed: int = 0) -> list[Example]:
    """Examples of an environment.

    Raises
    ------
    ValueError
        If no paper has the label that it grades against.
    """
    examples = spec(env_id).examples(papers_of(dataset, split), seed)
    if not examples:
        raise ValueError(f"{env_id}: no paper of {dataset} ({split}) has the label it grades against")
    return examples
