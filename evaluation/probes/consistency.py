"""Whether a policy answers the same question the same way: in other words, and with the papers of a pair swapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...envs.kit.single_turn import SingleTurnEnv
from ...envs.registry import spec
from ..bootstrap import Score, interval, mean_scores, ratios
from ..examination import Examination, VariantBenchmark
from ..records import plain
from .wordings import WORDINGS, reworded


@dataclass(frozen=True)
class WordingConsistency:
    """Answers to N questions in K wordings. Intervals resample questions, with all their wordings.

    Parameters
    ----------
    n, wordings : int
    accuracy : Score
        Over all N x K answers.
    accuracy_by_wording : list of Score
        The environment's own wording first.
    agreement : Score
        Share of pairs of wordings that get the same label, averaged over questions. No answer agrees with nothing,
        not even with no answer.
    all_agree, all_right : Score
        Share of questions with the same label in all wordings, and with the right one in all.
    answered : float in [0, 1]
    """

    n: int
    wordings: int
    accuracy: Score
    accuracy_by_wording: list[Score]
    agreement: Score
    all_agree: Score
    all_right: Score
    answered: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class OrderConsistency:
    """Answers to P pairs in both orders. Intervals resample pairs.

    A policy that looks at the position alone has agreement 0 and accuracy 1/2.

    Parameters
    ----------
    pairs : int
    accuracy : Score
        Over all 2 P answers.
    agreement : Score
        Share of pairs in which the same paper is named in both orders.
    both_right : Score
        Share of pairs that are right in both orders.
    always_first, always_second : Score
        Share of pairs in which the same position is named in both orders.
    position_bias : Score
        Share of "first" among the labels that were given, minus 1/2; 0 without a habit. NaN if none was given.
    """

    pairs: int
    accuracy: Score
    agreement: Score
    both_right: Score
    always_first: Score
    always_second: Score
    position_bias: Score

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def wording_consistency(
    expected: Sequence[str], predicted: Sequence[Sequence[str]], seed: int = 0, block: int = 1
) -> WordingConsistency:
    """Consistency over wordings.

    Parameters
    ----------
    expected : sequence of N str
    predicted : sequence of K sequences of N str, K >= 2
        "" where there is no answer.
    seed : int
        Of the bootstrap.
    block : int
        How many neighbouring questions are resampled together, such as both orders of a pair.

    Raises
    ------
    ValueError
        If there are fewer than two wordings, no questions, or different numbers of them.

    Examples
    --------
    >>> found = wording_consistency(["a", "b"], [["a", "b"], ["a", "a"]])
    >>> found.agreement.value, found.all_right.value, found.accuracy.value
    (0.5, 0.5, 0.75)
    """
    n, wordings = len(expected), len(predicted)
    if wordings < 2 or not n or any(len(answers) != n for answers in predicted):
        raise ValueError(
            f"needs the answers of at least two wordings to the same questions, got {n} questions and "
            f"{[len(answers) for answers in predicted]} answers"
        )
    answers = np.array([list(said) for said in predicted], dtype=object).T
    given = answers != ""
    right = (answers == np.array(expected, dtype=object)[:, None]).astype(float)
    same = (answers[:, :, None] == answers[:, None, :]) & given[:, :, None]
    agreeing = (same.sum(axis=(1, 2)) - given.sum(axis=1)) / (wordings * (wordings - 1))
    columns = np.column_stack(
        [right.mean(axis=1), agreeing, same.all(axis=(1, 2)).astype(float), right.all(axis=1).astype(float), right]
    )
    accuracy, agreement, all_agree, all_right, *single = mean_scores(columns, seed, block)
    return WordingConsistency(n, wordings, accuracy, single, agreement, all_agree, all_right, float(given.mean()))


def order_consistency(expected: Sequence[str], predicted: Sequence[str], seed: int = 0) -> OrderConsistency:
    """Consistency over both orders of pairs.

    Parameters
    ----------
    expected, predicted : sequences of 2 P str, "first" or "second"
        Neighbours are one pair, in one order and in the other. A prediction that is neither is no answer.
    seed : int
        Of the bootstrap.

    Raises
    ------
    ValueError
        If neighbours do not expect opposite answers: then they are not both orders of a pair.

    Examples
    --------
    >>> found = order_consistency(["first", "second"], ["first", "first"])
    >>> found.agreement.value, found.always_first.value, found.position_bias.value
    (0.0, 1.0, 0.5)
    """
    truth, said = np.array(list(expected), dtype=object), np.array(list(predicted), dtype=object)
    whole = len(truth) == len(said) and len(truth) > 0 and len(truth) % 2 == 0
    if not whole or any(set(pair) != {"first", "second"} for pair in truth.reshape(-1, 2)):
        raise ValueError(f"{len(truth)} expected and {len(said)} predicted answers are not pairs in both orders")
    right, first, second = ((said == other).astype(float).reshape(-1, 2) for other in (truth, "first", "second"))
    columns = np.column_stack(
        [
            right.mean(axis=1),
            first[:, 0] * second[:, 1] + second[:, 0] * first[:, 1],
            right.prod(axis=1),
            first.prod(axis=1),
            second.prod(axis=1),
        ]
    )
    named = np.stack([first.sum(axis=1), (first + second).sum(axis=1)], axis=1)
    bias = ratios(named[:, :1], named[:, 1:], seed)[:, 0] - 0.5
    return OrderConsistency(len(columns), *mean_scores(columns, seed), position_bias=interval(bias))


async def consistency_report(examined: Examination, wordings: int = WORDINGS) -> dict[str, Any]:
    """Ask a policy every question in its own and in other wordings; pairs also in both orders.

    Parameters
    ----------
    examined : Examination
        Of a single-turn environment.
    wordings : int in [1, WORDINGS]
        How many others.

    Returns
    -------
    dict, ready for JSON: settings, ``wordings`` (a `WordingConsistency`) and, for pairs, ``orders`` (an
    `OrderConsistency` for every wording, the environment's own first).

    Raises
    ------
    ValueError
        If the environment has several turns, or there are not so many wordings.
    """
    task, env_class = examined.task, spec(examined.task.env)
    if not issubclass(env_class, SingleTurnEnv):
        raise ValueError(f"{task.env} has several turns; consistency is measured where there is one question")
    if not 1 <= wordings <= WORDINGS:
        raise ValueError(f"wordings must be in [1, {WORDINGS}], got {wordings}")
    asked = [await examined.ask()]
    for wording in range(1, wordings + 1):
        benchmark = VariantBenchmark(examined.benchmark(), lambda env, wording=wording: reworded(env, wording))
        asked.append(await examined.ask(f"wording-{wording}", benchmark))
    expected = [answer.expected for answer in asked[0]]
    predicted = [[answer.predicted for answer in answers] for answers in asked]
    pairs = env_class.presentations == 2
    report = {
        "env": task.env,
        "options": task.options,
        "dataset": task.dataset,
        "split": examined.split,
        "max_tokens": task.max_tokens,
        "wordings": wording_consistency(expected, predicted, examined.seed, env_class.presentations).to_json(),
    }
    if pairs:
        report["orders"] = [order_consistency(expected, answers, examined.seed).to_json() for answers in predicted]
    return plain(report)
