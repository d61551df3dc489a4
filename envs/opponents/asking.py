"""Asking a model that may fail: the one road by which challengers and judges are called.

An endpoint may be down, hang, and answer with nothing, a megabyte or something that is not a text. None of that may end
a training run, and none of it may be hidden: every failure is logged as a warning, and the environment reports it as a
metric. What the episode does instead is for the caller to say.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Limits:
    """How long, how often, and how much.

    Parameters
    ----------
    timeout : float > 0
        Seconds for one attempt.
    attempts : int >= 1
    pause : float >= 0
        Seconds before the second attempt; twice as many before each later one.
    longest : int >= 1
        Characters of an answer that are read.
    """

    timeout: float = 60.0
    attempts: int = 3
    pause: float = 1.0
    longest: int = 4_000

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.attempts >= 1 and self.pause >= 0 and self.longest >= 1):
            raise ValueError(f"timeout, attempts and longest must be positive and pause not negative, got {self!r}")


LIMITS = Limits()


async def ask(
    call: Callable[[], Awaitable[object]], read: Callable[[str], Answer | None], limits: Limits = LIMITS
) -> Answer | None:
    """What a model answered, or None if every attempt failed.

    Parameters
    ----------
    call : callable
        Starts one attempt. An attempt fails if it raises an `Exception`, takes longer than `limits.timeout`, or gives
        something that is not a text. One that blocks the event loop cannot be interrupted.
    read : callable
        Makes the answer of the first `limits.longest` characters; None where they hold none, which is a failure too.
    limits : Limits

    Raises
    ------
    asyncio.CancelledError
        If the caller, or the attempt itself, is cancelled: that ends a run and is no failure of the model.
    """
    for attempt in range(limits.attempts):
        if attempt:
            await asyncio.sleep(limits.pause * 2 ** (attempt - 1))
        try:
            said = await _within(limits.timeout, call)
            if not isinstance(said, str):
                raise TypeError(f"expected a text, got {type(said).__name__}")
            answer = read(said[: limits.longest])
            if answer is not None:
                return answer
            problem = f"no answer in {len(said)} characters: {said[:80]!r}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        logger.warning("attempt %d of %d failed: %s", attempt + 1, limits.attempts, problem[:500])
    return None


async def _within(seconds: float, call: Callable[[], Awaitable[object]]) -> object:
    """The result of an attempt, awaited for so many seconds at most."""
    task = asyncio.ensure_future(call())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise TimeoutError(f"no answer within {seconds:g} s")
        return task.result()
    finally:
        if not task.done():
            # Nobody waits for its end: an attempt that is deaf to being cancelled must not hold up the rollout.
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
