"""Pairs of answers that an environment's grading prefers one over the other: what DPO learns from."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tinker
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.renderers import Message, Renderer, TrainOnWhat
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import TrajectoryGroup

from ...envs.kit.base import Example, SciSciEnv
from ...envs.registry import make, spec
from ...envs.training.groups import SciSciGroupBuilder

AT_ONCE = 64


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt.

    Parameters
    ----------
    prompt : list of int
        Tokens of the conversation so far.
    chosen, rejected : list of int
        Tokens of the better and the worse answer.
    """

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]


async def gold_pairs(
    env_id: str, examples: Sequence[Example], options: dict[str, Any], renderer: Renderer, seed: int
) -> list[Pair]:
    """One pair for every example, from the environment alone.

    Environments of one turn: the right answer against a wrong one drawn by the seed. Environments with a challenge:
    half of the conversations begin with the right label, and holding it is preferred to flipping; half begin with a
    wrong one, and revising is preferred to holding. So neither "always hold" nor "always flip" is preferred. Both
    answers of a pair give the same quotes: the difference is the label.

    Raises
    ------
    ValueError
        If the environment's answers are not labels, or two policies take part in it.
    """
    env_class = spec(env_id)
    if env_class.asks_for == "number" or env_id.startswith("disruption-selfplay"):
        raise ValueError(
            f"{env_id} offers no pairs of a right and a wrong answer; use pairs=sampled, or for self-play train on "
            "disruption-adversarial-v0"
        )
    rng = random.Random(seed)
    pairs = []
    for at, example in enumerate(examples):
        drawn = {**options, "seed": seed * 1_000_003 + at} if "seed" in env_class.option_names() else options
        env = make(env_id, *example, **drawn)
        messages, wrong = await _to_the_last_turn(env, rng)
        right = env.gold_answer()
        worse = right.replace(env.answer_for(env.gold_label), env.answer_for(wrong))
        prompt, chosen = _tokens(renderer, messages, right)
        pairs.append(Pair(prompt, chosen, _tokens(renderer, messages, worse)[1]))
    return pairs


async def _to_the_last_turn(env: SciSciEnv, rng: random.Random) -> tuple[list[Message], str]:
    """The conversation before the last answer, and the label of the worse answer."""
    messages = await env.initial_observation()
    wrong = rng.choice([label for label in env.labels if label != env.gold_label])
    first = rng.choice([env.gold_label, wrong])
    if env.turns == 1:
        return messages, wrong
    result = await env.step(Message(role="assistant", content=env.answer_for(first)))
    return result.next_messages, wrong


def _tokens(renderer: Renderer, messages: list[Message], answer: str) -> tuple[list[int], list[int]]:
    whole, weights = renderer.build_supervised_example(
        [*messages, Message(role="assistant", content=answer)], TrainOnWhat.LAST_ASSISTANT_MESSAGE
    )
    tokens = whole.to_ints()
    start = next(at for at, weight in enumerate(weights.tolist()) if weight > 0)
    return tokens[:start], tokens[start:]


async def sampled_pairs(
    builders: Sequence[SciSciGroupBuilder], client: tinker.SamplingClient, max_tokens: int
) -> list[Pair]:
    """Pairs from a policy's own answers at temperature 1: for every turn that several rollouts of a group came to by
    the same conversation, the best-paid answer against the worst-paid one, if their rewards differ.

    In the adversarial environment the second turns give "held against flipped" pairs.

    Parameters
    ----------
    builders : sequence of SciSciGroupBuilder
        Their group size is the number of rollouts of each example.
    """
    policy = TinkerTokenCompleter(client, max_tokens=max_tokens)
    gate = asyncio.Semaphore(AT_ONCE)

    async def play(builder: SciSciGroupBuilder) -> TrajectoryGroup:
        async with gate:
            return await do_group_rollout(builder, policy)

    groups = await asyncio.gather(*map(play, builders))
    return [pair for group in groups for pair in pairs_of_group(group)]


def pairs_of_group(group: TrajectoryGroup) -> list[Pair]:
    """The pairs of one group; at most one for every conversation that occurs in it."""
    answers: defaultdict[tuple[int, ...], list[tuple[float, list[int]]]] = defaultdict(list)
    for trajectory, reward in zip(group.trajectories_G, group.get_total_rewards(), strict=True):
        for step in trajectory.transitions:
            answers[tuple(step.ob.to_ints())].append((reward, list(step.ac.tokens)))
    pairs = []
    for prompt, given in answers.items():
        best, worst = max(given, key=_reward), min(given, key=_reward)
        if best[0] > worst[0] and best[1] != worst[1]:
            pairs.append(Pair(list(prompt), best[1], worst[1]))
    return pairs


def _reward(answer: tuple[float, list[int]]) -> float:
    return answer[0]
