"""Playing an episode at message level, without tokens."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from tinker_cookbook.renderers import Message
from tinker_cookbook.rl.message_env import MessageEnv, MessageStepResult

Result = TypeVar("Result")

LONGEST_EPISODE = 20


@dataclass(frozen=True)
class Episode:
    """A finished episode: what the agent saw before each of its messages, what it wrote, the result of the last step,
    and the sum of the rewards."""

    observations: list[list[Message]]
    answers: list[str]
    result: MessageStepResult
    reward: float


async def play_episode(env: MessageEnv, policy: str | Callable[[list[Message]], str | Awaitable[str]]) -> Episode:
    """Play `env` with a policy that turns what it sees into text, at once or asynchronously, or that always writes one.

    Raises `RuntimeError` if the episode does not end within 20 messages.
    """
    observations, answers, reward = [await env.initial_observation()], [], 0.0
    for _ in range(LONGEST_EPISODE):
        text = policy if isinstance(policy, str) else policy(observations[-1])
        answers.append(text if isinstance(text, str) else await text)
        result = await env.step(Message(role="assistant", content=answers[-1]))
        reward += result.reward
        if result.episode_done:
            return Episode(observations, answers, result, reward)
        observations.append(result.next_messages)
    raise RuntimeError(f"{type(env).__name__} did not end within {LONGEST_EPISODE} messages")


def run_sync(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, also where an event loop is running already, such as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()
