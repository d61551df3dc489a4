"""Who answered the questions of one environment, with what outcome, and how the policies compare with the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..envs.kit.base import SciSciEnv
from ..envs.registry import spec
from .ask import Answer
from .bootstrap import Score
from .comparison import Comparison, compare
from .examination import plain
from .outcome import MAIN_SCORES, Outcome, mean_score, outcome

Kind = Literal["baseline", "base model", "run"]


@dataclass(frozen=True)
class Entry:
    """A baseline or a policy with its answers.

    Parameters
    ----------
    name : str
    kind : "baseline" | "base model" | "run"
    outcome : Outcome
        Of greedy answers.
    answers : list of Answer
    source : dict
        What it takes to ask again: checkpoint, model, options.
    sampled : Outcome or None
        Of answers at temperature 1, where these were asked for.
    notes : tuple of str
        What a reader of its scores has to know.
    """

    name: str
    kind: Kind
    outcome: Outcome
    answers: list[Answer] = field(repr=False)
    source: dict[str, Any] = field(default_factory=dict)
    sampled: Outcome | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "source": self.source,
            "notes": list(self.notes),
            "outcome": self.outcome.to_json(),
            "sampled": self.sampled.to_json() if self.sampled else None,
        }


@dataclass(frozen=True)
class Versus:
    """One policy against another entry, on the same examples.

    Parameters
    ----------
    first, second : str
        Names.
    labels : Comparison
        Of the labels they named.
    reward_difference : Score
        Mean reward of the first minus that of the second, with the interval of the paired bootstrap.
    """

    first: str
    second: str
    labels: Comparison
    reward_difference: Score


@dataclass(frozen=True)
class Board:
    """One environment of a leaderboard.

    Parameters
    ----------
    env_id : str
    prior : tuple of float
        Shares of the labels in training.
    entries : tuple of Entry
        Baselines first.
    versus : tuple of Versus
    """

    env_id: str
    prior: tuple[float, ...]
    entries: tuple[Entry, ...]
    versus: tuple[Versus, ...]

    @property
    def env_class(self) -> type[SciSciEnv]:
        return spec(self.env_id)

    @property
    def n(self) -> int:
        return self.entries[0].outcome.n

    @property
    def main_name(self) -> str:
        """Name of the score that counts here."""
        return MAIN_SCORES[self.entries[0].outcome.main]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the best main score; of equal ones the first."""
        return _best([entry for entry in self.entries if entry.kind == "baseline"])

    @property
    def best_policy(self) -> Entry | None:
        """The policy with the best main score, if there is any."""
        policies = [entry for entry in self.entries if entry.kind != "baseline"]
        return _best(policies) if policies else None

    def to_json(self) -> dict[str, Any]:
        labels = self.env_class.labels
        return plain(
            {
                "env": self.env_id,
                "n": self.n,
                "main": self.entries[0].outcome.main,
                "labels": list(labels),
                "training_prior": dict(zip(labels, self.prior, strict=True)),
                "entries": [entry.to_json() for entry in self.entries],
                "comparisons": [
                    {
                        "first": one.first,
                        "second": one.second,
                        "labels": one.labels.to_json(),
                        "reward_difference": vars(one.reward_difference),
                    }
                    for one in self.versus
                ],
            }
        )


def entry(
    name: str,
    kind: Kind,
    answers: list[Answer],
    env_id: str,
    prior: np.ndarray,
    *,
    seed: int = 0,
    source: dict[str, Any] | None = None,
    sampled: list[Answer] | None = None,
    notes: Sequence[str] = (),
) -> Entry:
    """An entry from its answers."""
    env_class = spec(env_id)
    return Entry(
        name,
        kind,
        outcome(answers, env_class, prior, seed),
        answers,
        source or {},
        outcome(sampled, env_class, prior, seed) if sampled else None,
        tuple(notes),
    )


def board(env_id: str, prior: np.ndarray, entries: Sequence[Entry], seed: int = 0) -> Board:
    """A board: every policy is compared with the best baseline, and every run with the base models.

    Raises
    ------
    ValueError
        If entries answered different examples.
    """
    examples = [answer.example_id for answer in entries[0].answers]
    for other in entries:
        if [answer.example_id for answer in other.answers] != examples:
            raise ValueError(f"{other.name} and {entries[0].name} answered different examples of {env_id}")
    made = Board(env_id, tuple(prior.tolist()), tuple(entries), ())
    models = [other for other in entries if other.kind == "base model"]
    pairs = [
        (one, other)
        for one in entries
        if one.kind != "baseline"
        for other in [made.best_baseline, *(models if one.kind == "run" else [])]
    ]
    return Board(env_id, made.prior, made.entries, tuple(versus(one, other, seed) for one, other in pairs))


def versus(first: Entry, second: Entry, seed: int = 0) -> Versus:
    """Compare two entries of a board."""
    env_class = spec(first.outcome.env_id)
    block = env_class.presentations
    labels = compare(
        [answer.expected for answer in first.answers],
        [answer.predicted for answer in first.answers],
        [answer.predicted for answer in second.answers],
        env_class.labels,
        seed,
        block,
    )
    rewards = [np.array([answer.reward for answer in one.answers]) for one in (first, second)]
    return Versus(first.name, second.name, labels, mean_score(rewards[0] - rewards[1], seed, block))


def _best(entries: Sequence[Entry]) -> Entry:
    return max(entries, key=lambda entry: entry.outcome.main_score.value)
