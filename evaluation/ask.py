"""Answers to the questions of a benchmark, graded by the environment, whoever gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..envs.kit.base import SciSciEnv
from ..envs.kit.episodes import play_episode


@dataclass(frozen=True)
class Answer:
    """What was answered to one example.

    Parameters
    ----------
    example_id : str
    expected, predicted : str
        Labels; `predicted` is "" where no label could be parsed.
    text : str
        The last message.
    reward : float
        What the environment paid.
    probabilities : tuple of float or None
        One for each of the environment's labels: stated in the answer, or what is known of who answered. None where
        there are none.
    year : int
        Of publication.
    """

    example_id: str
    expected: str
    predicted: str
    text: str
    reward: float = float("nan")
    probabilities: tuple[float, ...] | None = None
    year: int = 0


def answer_of(
    env: SciSciEnv,
    text: str,
    logs: Mapping[str, Any],
    reward: float,
    probabilities: Sequence[float] | None = None,
) -> Answer:
    """The answer of a finished episode, from what the environment logged about it.

    Where an environment asks for probabilities, only those count that it parsed out of the answer.
    """
    names = [f"p_{label}" for label in env.labels]
    if env.asks_for == "probabilities":
        probabilities = [logs[name] for name in names] if all(name in logs for name in names) else None
    return Answer(
        example_id=env.example_id,
        expected=env.gold_label,
        predicted=str(logs.get("predicted", "")),
        text=text,
        reward=reward,
        probabilities=None if probabilities is None else tuple(float(p) for p in probabilities),
        year=env.papers[0].publication_year,
    )


async def grade(
    envs: Sequence[SciSciEnv], texts: Sequence[str], probabilities: Sequence[Sequence[float]] | None = None
) -> list[Answer]:
    """Answers in words to fresh environments, one text for each; in environments of several turns it is repeated.

    Parameters
    ----------
    envs : sequence of SciSciEnv, length N
    texts : sequence of str, length N
    probabilities : N sequences of K floats, optional
        What those who answered believe, for environments whose answers do not tell.
    """
    answers = []
    for at, (env, text) in enumerate(zip(envs, texts, strict=True)):
        episode = await play_episode(env, lambda _, said=text: said)
        believed = None if probabilities is None else probabilities[at]
        answers.append(answer_of(env, text, episode.result.logs, episode.reward, believed))
    return answers
