"""Learned baselines: features of papers with a model on top, chosen on validation papers, for every kind of question.

The features hold only what was known on the day of publication.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, mean_absolute_error
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from ..datasets.paper import Paper
from ..envs.kit.base import SciSciEnv
from .embeddings import Encoder, folder_encoder, model_folders, remembering

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Inverse regularisation strengths of the linear models, to choose from."""
RATES, ROUNDS = (0.03, 0.1), 100
"""Learning rates of the boosted trees to choose from, and the number of trees."""

Papers = tuple[Paper, ...]
Labels = tuple[str, ...]


@dataclass(frozen=True)
class Learner:
    """Features of papers (an unfitted transformer) and candidate models on top of them, made from a seed.

    The candidate that does best on validation papers is used. Tables show `name` where labels or probabilities are
    asked for, and `numeric_name` where a number is.
    """

    name: str
    numeric_name: str
    features: Callable[[], Pipeline]
    classifiers: Callable[[int], list[Any]]
    regressors: Callable[[int], list[Any]]


def text_of(paper: Paper) -> str:
    """Title and abstract, which the policies read as well."""
    return f"{paper.title}\n{paper.abstract}"


def metadata_of(paper: Paper) -> dict[str, float | str]:
    """Counts in logarithms, year and field of a paper, without its words.

    References are those that certainly appeared before the paper, as `facts` of a prompt counts them (20 at most in a
    dataset): the full count can be that of a later version. `authors_count` is 0 where the source does not tell.
    """
    return {
        "references": math.log1p(len(paper.reference_titles)),
        "authors": math.log1p(paper.authors_count),
        "title words": math.log1p(len(paper.title.split())),
        "abstract words": math.log1p(len(paper.abstract.split())),
        "year": float(paper.publication_year),
        "field": paper.primary_field,
    }


def metadata_features() -> Pipeline:
    """Papers -> numbers from 0 to 1, and one column for every field of the training papers.

    Numbers are clipped to the range of the training papers. Test papers are younger than all of these, and a linear
    model would extrapolate with the year.
    """
    return make_pipeline(_for_each(metadata_of), DictVectorizer(sparse=False), MinMaxScaler(clip=True))


def tfidf_features() -> Pipeline:
    """Papers -> TF-IDF of words and word pairs of title and abstract that at least two training papers have."""
    return make_pipeline(_for_each(text_of), TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True))


def _for_each(feature: Callable[[Paper], Any]) -> FunctionTransformer:
    return FunctionTransformer(lambda papers: [feature(paper) for paper in papers])


def _logistic(_: int) -> list[Any]:
    return [LogisticRegression(C=strength, max_iter=2000) for strength in STRENGTHS]


def _ridge(_: int) -> list[Any]:
    return [Ridge(alpha=1 / strength) for strength in STRENGTHS]


def _boosted(seed: int, model: Any = HistGradientBoostingClassifier, **options: Any) -> list[Any]:
    return [model(learning_rate=rate, max_iter=ROUNDS, max_depth=3, random_state=seed, **options) for rate in RATES]


# The absolute error, because the environments that ask for a number reward a small one.
_boosted_median = partial(_boosted, model=HistGradientBoostingRegressor, loss="absolute_error")


METADATA = Learner(
    "metadata only",
    "metadata only",
    metadata_features,
    lambda seed: [*_logistic(seed), *_boosted(seed)],
    lambda seed: [*_ridge(seed), *_boosted_median(seed)],
)
TFIDF = Learner("TF-IDF + logistic", "TF-IDF + ridge", tfidf_features, _logistic, _ridge)
METADATA_TFIDF = Learner(
    "metadata + TF-IDF",
    "metadata + TF-IDF",
    lambda: make_pipeline(make_union(metadata_features(), tfidf_features())),
    _logistic,
    _ridge,
)
"""Both kinds of features side by side. Studies compare with it; the leaderboard shows each kind by itself."""


EMBEDDING_STRENGTHS = (1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Inverse regularisation strengths on top of embeddings: hundreds of features that are all scaled alike."""


def local_embeddings() -> list[Learner]:
    """A linear head on the embeddings of each model that is on this machine; see `model_folders`."""
    return [_linear_head(name, folder) for name, folder in model_folders().items()]


@lru_cache(maxsize=4)
def _linear_head(name: str, folder: Path) -> Learner:
    features = partial(make_pipeline, _for_each(text_of), FunctionTransformer(folder_encoder(folder)), StandardScaler())
    return Learner(
        f"{name} + logistic",
        f"{name} + ridge",
        features,
        lambda _: [LogisticRegression(C=strength, max_iter=2000) for strength in EMBEDDING_STRENGTHS],
        lambda _: [Ridge(alpha=1 / strength) for strength in EMBEDDING_STRENGTHS],
    )


@lru_cache(maxsize=4)
def embeddings(encoder: Encoder) -> Learner:
    """Sentence embeddings of title and abstract with gradient boosting."""
    name = "embeddings + boosting"
    features = partial(make_pipeline, _for_each(text_of), FunctionTransformer(encoder))
    return Learner(name, name, features, _boosted, _boosted_median)


def sentence_encoder(model: str) -> Encoder:
    """An encoder by `sentence-transformers` (`pip install scisci-gym[embeddings]`), which embeds every text once.

    `model` is the folder of a model, or its name on the Hugging Face hub.

    Raises `ValueError` if the package is not installed, or the model cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ValueError(
            "sentence embeddings need the package sentence-transformers: pip install 'scisci-gym[embeddings]'"
        ) from error
    folder = Path(model).expanduser()
    looks_like_folder = model.startswith((".", "/", "~")) or folder.exists()
    if looks_like_folder and not folder.is_dir():
        raise ValueError(
            f"no folder {model!r}; give the folder of a sentence-transformers model, or its name on the hub"
        )
    try:
        loaded = SentenceTransformer(str(folder) if looks_like_folder else model, device="cpu")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot load the sentence-transformers model {model!r}: {error}; without a network give its folder"
        ) from error
    return remembering(lambda texts: loaded.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))


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

    The model is fitted on the training papers alone; the candidate with the best macro-F1 on the validation papers, or
    with the best Brier score, is used. Without validation papers it is the middle one.
    """
    held_out, truth = validation
    candidates = _candidates(learner, labels, train, held_out, test, seed)
    if not truth:
        return candidates[len(candidates) // 2][1]
    positions = np.array([labels.index(label) for label in truth])

    def quality(candidate: tuple[np.ndarray, np.ndarray]) -> float:
        guess = candidate[0]
        if by_brier:
            return -float(((guess - np.eye(len(labels))[positions]) ** 2).sum(axis=1).mean())
        return float(f1_score(positions, guess.argmax(axis=1), average="macro"))

    return max(candidates, key=quality)[1]


# Several environments ask about the same labels of the same papers; fitting takes seconds.
@lru_cache(maxsize=16)
def _candidates(
    learner: Learner, labels: Labels, train: tuple[Papers, Labels], validation: Papers, test: Papers, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For every candidate its probabilities for validation and test papers."""
    papers, truth = train
    features = learner.features()
    rows = features.fit_transform(papers)
    parts = [features.transform(part) if part else None for part in (validation, test)]
    models = learner.classifiers(seed) if len(set(truth)) > 1 else [DummyClassifier(strategy="most_frequent")]

    def predicted(model: Any, part: Any) -> np.ndarray:
        if part is None:
            return np.zeros((0, len(labels)))
        columns = dict(zip(map(str, model.classes_), model.predict_proba(part).T, strict=True))
        return np.stack([columns.get(label, np.zeros(part.shape[0])) for label in labels], axis=1)

    fitted = [model.fit(rows, truth) for model in models]
    return [(predicted(model, parts[0]), predicted(model, parts[1])) for model in fitted]


def predicted_numbers(
    learner: Learner,
    train: tuple[Sequence[Paper], Sequence[float]],
    validation: tuple[Sequence[Paper], Sequence[float]],
    test: Sequence[Paper],
    seed: int = 0,
) -> np.ndarray:
    """Numbers for the test papers; float (N,). Candidates are compared by their absolute error on validation papers."""
    papers, truth = train
    features = learner.features()
    rows = features.fit_transform(papers)
    models = [candidate.fit(rows, np.asarray(truth)) for candidate in learner.regressors(seed)]
    model = models[len(models) // 2]
    if len(validation[1]):
        held_out = features.transform(validation[0])
        model = min(models, key=lambda model: mean_absolute_error(validation[1], model.predict(held_out)))
    return model.predict(features.transform(test))


def predicted_probabilities(
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
        return label_probabilities_of(
            learner, labels, questions(train), questions(validation), questions(test)[0], by_brier=by_brier, seed=seed
        )

    if len(test[0].papers) == 2:
        share = np.clip(learn(("no", "yes"), _each_of_the_pair)[:, 1].reshape(-1, 2), 1e-6, 1 - 1e-6)
        odds = share / (1 - share)
        return odds / odds.sum(axis=1, keepdims=True)
    parts = [
        learn(labels, partial(_part_of_the_label, part=part if env_class.label_parts else None))
        for part, labels in enumerate(env_class.label_parts or (env_class.labels,))
    ]
    # Labels of several questions are in the order of their product.
    return reduce(lambda one, other: (one[:, :, None] * other[:, None, :]).reshape(len(test), -1), parts)


def _part_of_the_label(envs: Sequence[SciSciEnv], part: int | None) -> tuple[Papers, Labels]:
    truths = [str(env.truth) for env in envs]
    labels = tuple(truth if part is None else truth.split(", ")[part] for truth in truths)
    return tuple(env.papers[0] for env in envs), labels


def _each_of_the_pair(envs: Sequence[SciSciEnv]) -> tuple[Papers, Labels]:
    papers = tuple(paper for env in envs for paper in env.papers)
    return papers, tuple("yes" if env.truth == label else "no" for env in envs for label in env.labels)
