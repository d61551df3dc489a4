"""How often a policy gets each example right, and how its rewards spread: the table that a curriculum is made from.

Group-relative training learns only from examples that a policy gets right sometimes: a group whose rewards are all
equal has no advantage.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import tinker

from ...datasets.atomic_files import write_text_atomically
from ..ask import Answer
from ..examination import Examination


@dataclass(frozen=True)
class PassRate:
    """Several attempts of one policy at one example, of which `right` name the right label.

    `year` is that of publication, and `pass_rate` is `right` / `attempts`. The standard deviation of the rewards is
    that of the attempts themselves (divided by N).
    """

    example_id: str
    label: str
    year: int
    attempts: int
    right: int
    pass_rate: float
    mean_reward: float
    lowest_reward: float
    highest_reward: float
    reward_sd: float


def pass_rates(attempts: Sequence[Sequence[Answer]]) -> list[PassRate]:
    """One row for every example, from N lists of answers to the same examples in the same order.

    Examples
    --------
    >>> answer = Answer("W1", expected="neutral", predicted="neutral", text="", reward=1.0)
    >>> [row] = pass_rates([[answer], [Answer("W1", "neutral", "disruptive", "", -1.0)]])
    >>> row.pass_rate, row.mean_reward, row.reward_sd
    (0.5, 0.0, 1.0)
    """
    rows = []
    for answers in zip(*attempts, strict=True):
        rewards = np.array([answer.reward for answer in answers])
        right = sum(answer.predicted == answer.expected for answer in answers)
        first = answers[0]
        rows.append(
            PassRate(
                *(first.example_id, first.expected, first.year),
                *(len(answers), right, right / len(answers)),
                *map(float, (rewards.mean(), rewards.min(), rewards.max(), rewards.std())),
            )
        )
    return rows


def attempt_seed(seed: int, attempt: int) -> int:
    """The seed that attempt number `attempt` of an evaluation with this seed draws its samples with.

    In sessions of one seed an engine draws the same samples: attempts of that seed would be copies of each other.
    """
    return seed * 1_000_003 + attempt


async def sampled_pass_rates(
    examined: Examination, attempts: int, client_of: Callable[[int], Awaitable[tinker.SamplingClient]]
) -> list[PassRate]:
    """Pass rates at temperature 1. Attempts are kept in the folder of the examination and not made again.

    Every attempt is drawn by a client of its own, which `client_of` makes from its `attempt_seed`. So the first two of
    four attempts are the same whether all four are made at once or two are kept from an earlier call.
    """
    answers = []
    for seed in (attempt_seed(examined.seed, attempt) for attempt in range(attempts)):
        alone = replace(examined, client=await client_of(seed))
        answers.append(await alone.ask("sampled", settings=f"drawn with seed {seed}", temperature=1.0))
    return pass_rates(answers)


def shares(pass_rates: Sequence[float]) -> dict[str, float]:
    """The mean pass rate, and the shares of examples that were never, sometimes and always right."""
    rates = np.array(pass_rates)
    never, always = float(np.mean(rates == 0)), float(np.mean(rates == 1))
    return {"mean": float(rates.mean()), "never right": never, "sometimes": 1 - never - always, "always right": always}


def write_pass_rates(rows: Sequence[PassRate], path: Path) -> Path:
    """Write the rows as csv, hardest example first, and return the path."""
    text = io.StringIO()
    table = csv.DictWriter(text, [field.name for field in fields(PassRate)], lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(row) for row in sorted(rows, key=lambda row: (row.pass_rate, row.mean_reward)))
    return write_text_atomically(path, text.getvalue())
