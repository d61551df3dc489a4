"""What the learned baselines read of a paper: only what was known on the day it was published."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

from ..datasets.paper import Paper

Encoder = Callable[[Sequence[str]], np.ndarray]
"""Texts (N,) -> float array (N, D)."""


def text_of(paper: Paper) -> str:
    """What a text baseline reads: the title and the abstract, as the policies do."""
    return f"{paper.title}\n{paper.abstract}"


def metadata_of(paper: Paper) -> dict[str, float | str]:
    """Numbers about a paper, and nothing of what it says. Counts are in logarithms.

    `reference_count` and `authors_count` are those of the source's record, which may be of a later version; 0 where the
    source does not tell.
    """
    return {
        "references": math.log1p(paper.reference_count),
        "authors": math.log1p(paper.authors_count),
        "title words": math.log1p(len(paper.title.split())),
        "abstract words": math.log1p(len(paper.abstract.split())),
        "year": float(paper.publication_year),
        "field": paper.primary_field,
    }


def metadata_features() -> Pipeline:
    """Papers -> numbers from 0 to 1, and one column for every field of the training papers.

    Clipped to the range of the training papers: test papers are younger than all of these, and a linear model would run
    on with the year.
    """
    return make_pipeline(
        FunctionTransformer(_each(metadata_of)),
        DictVectorizer(sparse=False),
        MinMaxScaler(clip=True),
    )


def tfidf_features() -> Pipeline:
    """Papers -> TF-IDF of words and word pairs of title and abstract that at least two training papers have."""
    return make_pipeline(
        FunctionTransformer(_each(text_of)),
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
    )


def embedding_features(encoder: Encoder) -> Pipeline:
    """Papers -> embeddings of title and abstract."""
    return make_pipeline(FunctionTransformer(_each(text_of)), FunctionTransformer(encoder))


def _each(of_one: Callable[[Paper], Any]) -> Callable[[Sequence[Paper]], list[Any]]:
    def of_all(papers: Sequence[Paper]) -> list[Any]:
        return [of_one(paper) for paper in papers]

    return of_all
