"""Learned baselines: features of papers and a model on top, chosen on validation papers, for every kind of question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, mean_absolute_error
from sklearn.pipeline import Pipeline

from ..datasets.paper import Paper
from ..envs.kit.base import SciSciEnv
from .features import Encoder, embedding_features, metadata_features, tfidf_features

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Inverse regularisation of the linear models, to choose from."""
RATES, ROUNDS = (0.03, 0.1), 100
"""Learning rates of the boosted trees to choose from, and how many trees."""


@dataclass(frozen=True)
class Learner:
    """A way to learn from papers.

    Parameters
    ----------
    name, numeric_name : str
        For tables: where labels or probabilities are asked for, and where a number is.
    features : callable
        Makes an unfitted transformer of papers.
    classifiers, regressors : callables
        From a seed to candidates; the one that does best on validation papers is used.
    """

    name: str
    numeric_name: str
    features: Callable[[], Pipeline]
    classifiers: Callable[[int], list[Any]]
    regressors: Callable[[int], list[Any]]


def _logistic(seed: int) -> list[Any]:
    del seed
    return [LogisticRegression(C=strength, max_iter=2000) for strength in STRENGTHS]


def _ridge(seed: int) -> list[Any]:
    del seed
    return [Ridge(alpha=1 / strength) for strength in STRENGTHS]


def _boosted(seed: int) -> list[Any]:
    return [
        HistGradientBoostingClassifier(learning_rate=rate, max_iter=ROUNDS, max_depth=3, random_state=seed)
        for rate in RATES
    ]


def _boosted_median(seed: int) -> list[Any]:
    # The absolute error, because the environments that ask for a number pay for a small one.
    return [
        HistGradientBoostingRegressor(
            loss="absolute_error", learning_rate=rate, max_iter=ROUNDS, max_depth=3, random_state=seed
        )
        for rate in RATES
    ]


METADATA = Learner(
    "metadata only",
    "metadata only",
    metadata_features,
    lambda seed: [*_logistic(seed), *_boosted(seed)],
    lambda seed: [*_ridge(seed), *_boosted_median(seed)],
)
TFIDF = Learner("TF-IDF + logistic", "TF-IDF + ridge", tfidf_features, _logistic, _ridge)


@lru_cache(maxsize=4)
def embeddings(encoder: Encoder) -> Learner:
    """Sentence embeddings with gradient boosting."""
    name = "embeddings + boosting"
    return Learner(name, name, lambda: embedding_features(encoder), _boosted, _boosted_median)


Papers = tuple[Paper, ...]
Labels = tuple[str, ...]


def label_probabilities_of(
    learner: Learner,
    labels: Labels,
    train: tuple[Papers, Labels],
    validation: tuple[Papers, Labels],
    test: Papers,
    *,
    by_brier: bool = False,
    seed: int = 0,
) -> np.ndarray:
    """Probabilities of `labels` for the test papers; float (N, K). A label that training does not show gets 0.

    Parameters
    ----------
    train, validation : (papers, labels)
        The model is fitted on the training papers alone; the candidate with the best macro-F1 on the validation papers,
        or with the best Brier score, is used. Without validation papers it is the middle one.
    by_brier : bool
    """
    held_out, truth = validation
    candidates = _candidates(learner, labels, train, held_out, test, seed)
    if not truth:
        return candidates[len(candidates) // 2][1]
    positions = np.array([labels.index(label) for label in truth])

    def quality(guess: np.ndarray) -> float:
        if by_brier:
            return -float(((guess - np.eye(len(labels))[positions]) ** 2).sum(axis=1).mean())
        return float(f1_score(positions, guess.argmax(axis=1), average="macro"))

    return max(candidates, key=lambda candidate: quality(candidate[0]))[1]


# Several environments ask about the same labels of the same papers; fitting takes seconds.
@lru_cache(maxsize=16)
def _candidates(
    learner: Learner, labels: Labels, train: tuple[Papers, Labels], validation: Papers, test: Papers, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For every candidate its probabilities for validation and test papers."""
    papers, known = train
    features = learner.features()
    seen = features.fit_transform(papers)
    models = learner.classifiers(seed) if len(set(known)) > 1 else [DummyClassifier(strategy="most_frequent")]
    rows = [features.transform(part) if part else None for part in (validation, test)]

    def predicted(model: Any, part: Any) -> np.ndarray:
        if part is None:
            return np.zeros((0, len(labels)))
        stated = dict(zip(map(str, model.classes_), model.predict_proba(part).T, strict=True))
        return np.stack([stated.get(label, np.zeros(part.shape[0])) for label in labels], axis=1)

    fitted = [model.fit(seen, known) for model in models]
    return [(predicted(model, rows[0]), predicted(model, rows[1])) for model in fitted]


def numbers_of(
    learner: Learner,
    train: tuple[Sequence[Paper], Sequence[float]],
    validation: tuple[Sequence[Paper], Sequence[float]],
    test: Sequence[Paper],
    seed: int = 0,
) -> np.ndarray:
    """Numbers for the test papers; float (N,). Candidates are compared by their absolute error on validation papers."""
    papers, known = train
    features = learner.features()
    seen = features.fit_transform(papers)
    models = [candidate.fit(seen, np.asarray(known)) for candidate in learner.regressors(seed)]
    model = models[len(models) // 2]
    if len(validation[1]):
        rows = features.transform(validation[0])
        errors = [mean_absolute_error(validation[1], model.predict(rows)) for model in models]
        model = models[int(np.argmin(errors))]
    return model.predict(features.transform(test))


def believed(
    learner: Learner,
    train: Sequence[SciSciEnv],
    validation: Sequence[SciSciEnv],
    test: Sequence[SciSciEnv],
    seed: int = 0,
) -> np.ndarray:
    """Probabilities (N, K) of an environment's labels for the test examples, learned from its training examples.

    Labels that answer several questions are learned question by question, as if these were independent. Of two papers
    that are compared, each gets the probability of being the one asked for; the odds of the pair are their ratio.
    """
    env_class = type(test[0])
    by_brier = env_class.asks_for == "probabilities"

    def learn(labels: Labels, questions: Callable[[Sequence[SciSciEnv]], tuple[Papers, Labels]]) -> np.ndarray:
        asked = questions(test)[0]
        return label_probabilities_of(
            learner, labels, questions(train), questions(validation), asked, by_brier=by_brier, seed=seed
        )

    if len(test[0].papers) == 2:
        share = np.clip(learn(("no", "yes"), _each_of_the_pair)[:, 1].reshape(-1, 2), 1e-6, 1 - 1e-6)
        odds = share / (1 - share)
        return odds / odds.sum(axis=1, keepdims=True)
    parts = [
        learn(labels, partial(_part_of_the_label, at=at if env_class.label_parts else None))
        for at, labels in enumerate(env_class.label_parts or (env_class.labels,))
    ]
    # Labels of several questions are in the order of their product.
    return reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(len(test), -1), parts)


def _part_of_the_label(envs: Sequence[SciSciEnv], at: int | None) -> tuple[Papers, Labels]:
    truths = [str(env.truth) for env in envs]
    labels = tuple(truth if at is None else truth.split(", ")[at] for truth in truths)
    return tuple(env.papers[0] for env in envs), labels


def _each_of_the_pair(envs: Sequence[SciSciEnv]) -> tuple[Papers, Labels]:
    papers = tuple(paper for env in envs for paper in env.papers)
    return papers, tuple("yes" if env.truth == label else "no" for env in envs for label in env.labels)
