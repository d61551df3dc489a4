"""What a policy has to beat: the majority class, the class prior, and a linear model on the same text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import Pipeline, make_pipeline

from ...datasets.paper import Paper

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)


def majority(train: Sequence[str], n: int) -> list[str]:
    """The most common training label, n times."""
    model = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(train), 1)), train)
    return [str(label) for label in model.predict(np.zeros((n, 1)))]


def prior(train: Sequence[str], n: int, seed: int = 0) -> list[str]:
    """n labels drawn with the shares that they have in training."""
    model = DummyClassifier(strategy="stratified", random_state=seed).fit(np.zeros((len(train), 1)), train)
    return [str(label) for label in model.predict(np.zeros((n, 1)))]


def tfidf_logistic(
    train: Sequence[Paper],
    train_labels: Sequence[str],
    validation: Sequence[Paper],
    validation_labels: Sequence[str],
    test: Sequence[Paper],
) -> list[str]:
    """TF-IDF of title and abstract (words and word pairs) with logistic regression.

    Its one parameter, the regularisation, is chosen by macro-F1 on the validation papers; the model is fitted on the
    training papers alone, as the policies are.

    Returns
    -------
    Predicted labels of `test`.
    """
    words, held_out = [text_of(paper) for paper in train], [text_of(paper) for paper in validation]

    def fitted(strength: float) -> Pipeline:
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
            LogisticRegression(C=strength, max_iter=2000),
        )
        return model.fit(words, train_labels)

    models = [fitted(strength) for strength in STRENGTHS]
    quality = [f1_score(validation_labels, model.predict(held_out), average="macro") for model in models]
    best = models[int(np.argmax(quality))]
    return [str(label) for label in best.predict([text_of(paper) for paper in test])]


def text_of(paper: Paper) -> str:
    """What a text baseline reads: the title and the abstract, as the policies do."""
    return f"{paper.title}\n{paper.abstract}"
