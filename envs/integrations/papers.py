"""Which papers an integration shows: those of a dataset, or the built-in ones."""

import os
from collections.abc import Mapping
from typing import Any

from ...datasets.paper import Paper
from ...datasets.splits import CUTOFF_VIEWS, SPLITS
from ...datasets.store import load_papers
from ..kit.base import Example
from ..kit.samples import sample_papers
from ..registry import spec
from .cookbook_benchmarks import DATASET_VARIABLE


def papers_of(dataset: str | None, split: str) -> list[Paper]:
    """Papers of a built dataset: `dataset`, or the folder in `SCISCI_GYM_DATASET`, or the nine built-in papers.

    Raises `ValueError` if there is no such split, and `FileNotFoundError` if the folder holds no dataset, or not
    that split.
    """
    if split not in (*SPLITS, *CUTOFF_VIEWS):
        raise ValueError(
            f"no split {split!r}; choose {', '.join(SPLITS)}, or one of a --cutoff: {', '.join(CUTOFF_VIEWS)}"
        )
    folder = _folder(dataset)
    return load_papers(folder, split) if folder else sample_papers()


def examples_of(env_id: str, dataset: str | None, split: str, seed: int = 0) -> list[Example]:
    """Examples of an environment.

    Raises what `papers_of` raises, and `ValueError` if no paper has the label that the environment grades against.
    """
    papers, env_class = papers_of(dataset, split), spec(env_id)
    examples = env_class.examples(papers, seed)
    if not examples:
        raise ValueError(
            f"none of the {len(papers):,} papers of {_folder(dataset) or 'the built-in dataset'} ({split}) has the "
            f"label that {env_id} grades against; choose another --split, or build the dataset with that label"
        )
    return examples


def options_of(env_id: str, dataset: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """`options`, beside those that follow from the training papers if there is a dataset: a prior, as in training.

    Raises `FileNotFoundError` if they are needed and the folder holds no training split.
    """
    folder = _folder(dataset)
    trained = spec(env_id).training_options(folder) if folder else {}
    return {**trained, **options}


def _folder(dataset: str | None) -> str | None:
    return dataset or os.environ.get(DATASET_VARIABLE)
