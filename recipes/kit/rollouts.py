"""Rollouts besides those of the training loop's own process: in workers, on a Ray cluster, and before training."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Literal

import tinker
from tinker_cookbook.completers import TinkerTokenCompleter
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.rl.types import TrajectoryGroup

from ...datasets.ray_executor import RayExecutor
from ...envs.integrations.papers import options_of
from ...envs.kit.base import Example
from ...envs.training.groups import SciSciGroupBuilder
from .compat import starting_policy
from .config import RecipeConfig

Rollouts = Literal["local", "processes", "ray"]
CONCURRENT_GROUPS = 64


async def sampled_groups(
    cfg: RecipeConfig, start: str | None, examples: Sequence[Example], group_size: int
) -> list[TrajectoryGroup]:
    """Groups of rollouts at temperature 1, one for each example, by the policy that training starts from (`start` as in
    `starting_policy`)."""
    client = await asyncio.to_thread(starting_policy, tinker.ServiceClient(), cfg.model_name, start)
    policy = TinkerTokenCompleter(client, max_tokens=cfg.max_tokens)
    concurrent = asyncio.Semaphore(CONCURRENT_GROUPS)
    renderer, options = cfg.renderer(), options_of(cfg.env, cfg.dataset, cfg.options())

    async def play(example: Example) -> TrajectoryGroup:
        builder = SciSciGroupBuilder(cfg.env, example, renderer, cfg.model_name, group_size, options)
        async with concurrent:
            return await do_group_rollout(builder, policy)

    return await asyncio.gather(*map(play, examples))


@contextmanager
def rollout_executor(kind: Rollouts, workers: int) -> Iterator[Executor | None]:
    """An executor for the group rollouts of the cookbook's training loop, or None for rollouts in this process.

    Parameters
    ----------
    kind : "local" | "processes" | "ray"
        ``processes``: freshly started ones on this machine. ``ray``: tasks on the cluster that `RAY_ADDRESS` names, or
        on one that is started here. Workers reach the engine by the environment variables of the Tinker SDK; on a
        cluster that means hosted Tinker, or an engine whose URL all machines can reach.
    workers : int >= 1
        Processes, or rollouts that Ray runs at once.

    Raises `ValueError` if `workers` is below 1, or Ray is asked for and not installed.
    """
    if workers < 1:
        raise ValueError(f"rollout_workers must be at least 1, got {workers}")
    if kind == "local":
        yield None
    elif kind == "processes":
        # Threads of the Tinker client do not survive a fork.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
    else:
        address = {name: os.environ[name] for name in ("TINKER_BASE_URL", "TINKER_API_KEY") if name in os.environ}
        with RayExecutor("rollouts=ray", workers=workers, retries=2, environment=address) as cluster:
            yield cluster
