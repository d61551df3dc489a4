"""All scores of one set of answers to one environment."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..envs.kit.base import SciSciEnv
from .ask import Answer
from .bootstrap import Score, mean_score
from .calibration import Calibration, calibration
from .metrics import Discrimination, Scores, discrimination, score

MAIN_SCORES = {"macro_f1": "macro-F1", "accuracy": "accuracy", "brier_skill": "Brier skill", "reward": "mean reward"}
"""The scores that can count in an environment, and their names in tables."""


@dataclass(frozen=True)
class YearOutcome:
    """Scores of the papers of one year of publication."""

    year: int
    n: int
    main: Score
    accuracy: Score


@dataclass(frozen=True)
class Outcome:
    """Scores of one set of answers.

    `main` names the score that counts in this environment: a key of `MAIN_SCORES`. `scores` are those of the labels and
    `parts` those of each question, where labels answer several; `reward` is the mean reward. `calibration` and
    `discrimination` are None where answers come without probabilities.
    """

    env_id: str
    n: int
    main: str
    scores: Scores
    parts: dict[str, Scores]
    reward: Score
    calibration: Calibration | None
    discrimination: Discrimination | None
    years: tuple[YearOutcome, ...]

    @property
    def main_score(self) -> Score:
        """The score that counts in this environment."""
        if self.main == "reward":
            return self.reward
        return getattr(self.calibration if self.main == "brier_skill" else self.scores, self.main)


@dataclass
class PolicyResult:
    """Scores of one policy on one split, greedy and at temperature 1, and its greedy answers.

    Both are reported because a policy that is nearly uniform looks worse under argmax than it is.
    """

    name: str
    greedy: Scores
    sampled: Scores
    answers: list[Answer] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "greedy": self.greedy.to_json(), "sampled": self.sampled.to_json()}


def score_answers(answers: Sequence[Answer], labels: Sequence[str], seed: int = 0, block: int = 1) -> Scores:
    """`score` of a list of answers."""
    return score([a.expected for a in answers], [a.predicted for a in answers], labels, seed, block)


def main_score_of(env_class: type[SciSciEnv]) -> str:
    """Which score counts in an environment.

    Brier skill where probabilities are asked for, the mean reward where a number is, accuracy for pairs that are shown
    in both orders (balanced by design), macro-F1 for all other labels.
    """
    if env_class.asks_for == "probabilities":
        return "brier_skill"
    if env_class.asks_for == "number":
        return "reward"
    return "accuracy" if env_class.presentations > 1 else "macro_f1"


def outcome(answers: Sequence[Answer], env_class: type[SciSciEnv], prior: np.ndarray, seed: int = 0) -> Outcome:
    """Scores of a set of answers, with 95 % bootstrap intervals over examples (over pairs, if both orders are shown).

    There are one or more answers, in the benchmark's order. The prior, float (K,), has the shares of the labels in
    training: it is the reference of the Brier skill. Raises `ValueError` if there are no answers, or one expects a
    label that the environment does not have.
    """
    labels, block, main = env_class.labels, env_class.presentations, main_score_of(env_class)
    probabilities, truth = stated(answers, labels, required=main == "brier_skill")
    calibrated = discriminated = None
    if probabilities is not None:
        positive = 0 if len(labels) == 2 and block == 1 else None
        calibrated = calibration(probabilities, truth, prior=prior, positive=positive, seed=seed, block=block)
        order = [labels.index(label) for label in env_class.label_order] or None
        discriminated = discrimination(probabilities, truth, order=order, seed=seed, block=block)
    years = sorted({answer.year for answer in answers})
    return Outcome(
        env_id=env_class.env_id,
        n=len(answers),
        main=main,
        scores=score_answers(answers, labels, seed, block),
        parts=_parts(answers, env_class, seed),
        reward=mean_score(np.array([answer.reward for answer in answers]), seed, block),
        calibration=calibrated,
        discrimination=discriminated,
        years=tuple(_year(year, [a for a in answers if a.year == year], env_class, prior, seed) for year in years),
    )


def stated(
    answers: Sequence[Answer], labels: Sequence[str], required: bool = False
) -> tuple[np.ndarray | None, np.ndarray]:
    """Probabilities (N, K) of a set of answers, with rows of NaN where one has none, and the truth (N,).

    If no answer has any, the probabilities are None, or all NaN if they were `required`.
    """
    truth = np.array([labels.index(answer.expected) for answer in answers])
    if not required and all(answer.probabilities is None for answer in answers):
        return None, truth
    missing = (math.nan,) * len(labels)
    return np.array([answer.probabilities or missing for answer in answers]), truth


def _parts(answers: Sequence[Answer], env_class: type[SciSciEnv], seed: int) -> dict[str, Scores]:
    parts = {}
    for index, labels in enumerate(env_class.label_parts):
        truth = [answer.expected.split(", ")[index] for answer in answers]
        predicted = [answer.predicted.split(", ")[index] if answer.predicted else "" for answer in answers]
        parts[" / ".join(labels)] = score(truth, predicted, labels, seed)
    return parts


def _year(
    year: int, answers: Sequence[Answer], env_class: type[SciSciEnv], prior: np.ndarray, seed: int
) -> YearOutcome:
    labels, block, main = env_class.labels, env_class.presentations, main_score_of(env_class)
    scores = score_answers(answers, labels, seed, block)
    if main == "reward":
        value = mean_score(np.array([answer.reward for answer in answers]), seed, block)
    elif main == "brier_skill":
        probabilities, truth = stated(answers, labels, required=True)
        assert probabilities is not None
        value = calibration(probabilities, truth, prior=prior, seed=seed, block=block).brier_skill
        assert value is not None
    else:
        value = getattr(scores, main)
    return YearOutcome(year, len(answers), value, scores.accuracy)
