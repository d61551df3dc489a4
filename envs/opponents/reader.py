"""A frozen reader: a linear model that says how strongly a text speaks for each label, fitted on the training split.

A challenger takes its argument from it (`reader:DATASET`), and quotes are paid by it (`reasons=reader:DATASET`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...datasets.store import load_papers, split_file
from ...rewards import evidence_credit, passages_of
from ...rewards.quotes import MIN_WORDS
from ..kit.fencing import as_data
from ..kit.reasons import Reasons
from ..kit.single_turn import LabelEnv
from .models import Named

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

FOLDS = 5
MAX_QUOTES, SPAN_PAPERS, LEAST_SPAN = 3, 300, 0.05
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Inverse regularisation strengths to choose from, by the log loss on papers that the model was not fitted on."""


@dataclass(frozen=True)
class WordModel:
    """Logistic regression as one vector for each word: scores are the sum of the vectors of a text's different words.

    This is what `TfidfVectorizer(norm=None, binary=True)` and `LogisticRegression` compute, twenty times faster for a
    short text. `words` splits a text, `intercept` and the vectors have shape (K,), one number for each label.
    """

    words: Callable[[str], Iterable[str]]
    intercept: np.ndarray
    vectors: Mapping[str, np.ndarray]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities of the K labels for N texts; float (N, K)."""
        scores = np.stack([self._score(text) for text in texts])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    def _score(self, text: str) -> np.ndarray:
        known = [self.vectors[word] for word in dict.fromkeys(self.words(text)) if word in self.vectors]
        return np.sum([self.intercept, *known], axis=0)


@dataclass(frozen=True)
class Reader:
    """Multinomial logistic regression on the unnormalised TF-IDF of single words, for the labels of one question.

    A paper is always read by a model that was fitted on other papers: training papers fall into five folds by a digest
    of their text, and the model of a fold was fitted on the other four. Without this, what the reader says of a
    training paper would contain that paper's own label. Outcomes other than the labels of the training split play no
    part, and none at all once it is fitted.

    The features are not normalised, so the log-odds of a passage are the sum of its words' weights, and a short
    passage is not taken for a strong one.

    How it can be gamed: it counts words and does not understand sentences. "This is no review" weighs as much as "this
    is a review", and a policy that learns which words the reader weighs is paid for quoting them.

    There is a model for each fold, with probabilities in the order of the K `labels`. `span`, at least 0.05, is what
    the best three passages of an average training paper add up to: three times the mean margin, over training papers,
    of the passage of a sixth of its words from which the reader believes most in the right label.
    """

    labels: tuple[str, ...]
    models: tuple[WordModel, ...]
    span: float

    def probabilities(self, title: str, abstract: str, passages: Sequence[str]) -> np.ndarray:
        """What the reader believes from each passage alone, by the model that never saw the paper; float (N, K)."""
        return self.models[_fold(_text(title, abstract))].probabilities(passages)

    def log_odds(self, title: str, abstract: str, label: str, other: str) -> float:
        """Logarithm of how many times likelier than `other` the reader holds `label`, from title and abstract."""
        whole = self.probabilities(title, abstract, [_text(title, abstract)])[0]
        return float(np.log(whole[self.labels.index(label)] / whole[self.labels.index(other)]))


@dataclass(frozen=True)
class ReaderReasons(Reasons):
    """Pays quotes by how much better a frozen reader tells the right label from them than from other passages.

    The evidence of a passage is the reader's probability of the right label from it alone, in units of `Reader.span`;
    `evidence_credit` says what is paid for it. Where a label answers several questions, evidence for each adds up. Of
    the paper's outcome the reader learns nothing; the rule looks at the right label, which the grader knows as well,
    and only after the agent has named it.

    The reader is fitted on the training split of the built dataset in the folder `dataset`.
    """

    dataset: str

    @property
    def request(self) -> str:
        return (
            f"Quote up to three passages of the title or abstract that decide it, word for word, each of at least "
            f"{MIN_WORDS} words between <quote> and </quote>."
        )

    def prepare(self, question: type[LabelEnv]) -> None:
        fitted_readers(self.dataset, question)

    def credit(self, text: str, shown: Sequence[str], question: type[LabelEnv], label: str) -> float:
        return evidence_credit(text, shown, partial(self.evidence, shown, question, label))

    def best(self, shown: Sequence[str], question: type[LabelEnv], label: str) -> list[str]:
        passages = _sixths(shown)
        size = len(passages[0].split())
        evidence = self.evidence(shown, question, label, passages)
        chosen: list[int] = []
        for index in sorted(range(len(passages)), key=lambda index: -evidence[index]):
            tells = evidence[index] > np.mean(evidence) or not chosen
            if tells and len(chosen) < MAX_QUOTES and all(abs(index - other) >= size for other in chosen):
                chosen.append(index)
        return [passages[index] for index in chosen]

    def evidence(
        self, shown: Sequence[str], question: type[LabelEnv], label: str, passages: Sequence[str]
    ) -> list[float]:
        """Evidence of each passage for `label`; >= 0."""
        title, abstract = shown
        total = np.zeros(len(passages))
        for reader, part in zip(fitted_readers(self.dataset, question), question.split_label(label), strict=True):
            total += reader.probabilities(title, abstract, passages)[:, reader.labels.index(part)] / reader.span
        return total.tolist()


REASONS: Named[Reasons] = Named("reasons", Reasons)
REASONS.register("quotes", lambda _: Reasons(), "three quotes that occur word for word")
REASONS.register(
    "reader",
    ReaderReasons,
    "quotes by what they tell a linear model, fitted on the training split of a dataset folder",
    "DATASET",
)


def fitted_readers(dataset: str, question: type[LabelEnv]) -> tuple[Reader, ...]:
    """The readers of an environment's questions, fitted on the training split of `dataset` once a process.

    Deterministic: the same papers give the same readers in every process. It takes seconds for thousands of papers. A
    split that was written anew is read anew.

    Raises `ValueError` if there is no training split, or too few papers of it have a label.
    """
    dataset = os.path.abspath(dataset)
    path = split_file(Path(dataset), "train")
    written = path.stat() if path.is_file() else None
    return _fitted_readers(dataset, question, written and (written.st_mtime_ns, written.st_size, written.st_ino))


@lru_cache(maxsize=16)
def _fitted_readers(dataset: str, question: type[LabelEnv], written: tuple[int, ...] | None) -> tuple[Reader, ...]:
    """`written` tells one version of the split from the next."""
    del written
    try:
        papers = [paper for paper in load_papers(dataset, "train") if question.has_label(paper)]
    except FileNotFoundError as error:
        raise ValueError(f"a reader is fitted on a training split: {error}") from error
    texts = [_text(as_data(paper.title), as_data(paper.abstract)) for paper in papers]
    truths = [question.split_label(question.label_of(paper) or "") for paper in papers]
    return tuple(
        _fit(labels, texts, [truth[part] for truth in truths], f"{dataset} for {question.env_id}")
        for part, labels in enumerate(question.label_parts or (question.labels,))
    )


def _fit(labels: tuple[str, ...], texts: Sequence[str], truths: Sequence[str], what: str) -> Reader:
    # Not before a reader is asked for: scikit-learn takes a second to import.
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    # Sorted as scikit-learn sorts them, so that columns of probabilities need no other order.
    names, folds = tuple(sorted(labels)), np.array([_fold(text) for text in texts])
    truth = np.array(truths)
    losses = np.zeros(len(STRENGTHS))
    fitted: list[list[WordModel]] = [[] for _ in STRENGTHS]
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if missing := set(names) - set(truth[inside]):
            raise ValueError(
                f"too few training papers in {what}: none of {len(inside)} is {', '.join(sorted(missing))}; build a "
                "larger dataset, or pass challenger=scripted,reasons=quotes, which need none"
            )
        words: Any = TfidfVectorizer(norm=None, binary=True, min_df=2)  # pyright: ignore[reportArgumentType]
        features = words.fit_transform([text for text, of in zip(texts, folds, strict=True) if of != fold])
        for place, strength in enumerate(STRENGTHS):
            model = LogisticRegression(C=strength, max_iter=1000).fit(features, truth[inside])
            fitted[place].append(word_model(words, model))
            if len(outside):
                guess = fitted[place][fold].probabilities([texts[int(index)] for index in outside])
                losses[place] += log_loss(truth[outside], guess, labels=list(names)) * len(outside)
    best = tuple(fitted[int(losses.argmin())])
    margins = []
    for text, right, fold in islice(zip(texts, truths, folds, strict=True), SPAN_PAPERS):
        belief = best[fold].probabilities(_sixths(text.split("\n", 1)))[:, names.index(right)]
        margins.append(belief.max() - belief.mean())
    return Reader(names, best, max(LEAST_SPAN, MAX_QUOTES * float(np.mean(margins))))


def word_model(words: TfidfVectorizer, model: LogisticRegression) -> WordModel:
    """The same probabilities as those of a pipeline of both, which have been fitted."""
    weights, intercept = np.asarray(model.coef_) * words.idf_, np.asarray(model.intercept_)
    if len(intercept) == 1:
        # Of two labels scikit-learn keeps the log-odds of the second.
        weights, intercept = np.vstack([0 * weights, weights]), np.array([0.0, *intercept])
    vectors = dict(zip(words.get_feature_names_out(), weights.T, strict=True))
    return WordModel(words.build_analyzer(), intercept, vectors)


def _sixths(shown: Sequence[str]) -> list[str]:
    """The passages of a sixth of a paper's words, so that three of them are half of it, or of five words where that is
    more; the longest text if none is."""
    return passages_of(shown, max(MIN_WORDS, sum(len(text.split()) for text in shown) // 6)) or [max(shown, key=len)]


def _text(title: str, abstract: str) -> str:
    return f"{title}\n{abstract}"


def _fold(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % FOLDS
