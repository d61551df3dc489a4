"""Metrics of all groups of a step, also where groups with constant rewards are left out of training.

With `remove_constant_reward_groups` the cookbook computes its metrics from the groups that are left, so the share of
groups with equal rewards is 0 by construction, accuracy is that of the papers of middling difficulty, and nothing says
how many groups are gone.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

from tinker_cookbook.rl import train
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.types import EnvGroupBuilder, TrajectoryGroup
from tinker_cookbook.utils.misc_utils import all_same

SAMPLED, REMOVED = "groups/sampled", "groups/removed"
ROLLOUT = "do_group_rollout_and_filter_constant_reward"
"""Of `train`, which imports it from another module."""


@contextmanager
def metrics_of_all_groups() -> Iterator[None]:
    """Inside the block, `train.main` logs ``env/...`` over all groups, ``groups/sampled``: how many there were, and
    ``groups/removed``: how many of them were left out of the update.

    The functions of `tinker_cookbook.rl.train` that sample a group and make an update are wrapped; what is trained on
    stays the same. In asynchronous training a removed group counts for the first update after it came in. All group
    builders of a run have the same logging tags.
    """
    constant: list[TrajectoryGroup] = []
    rollout = getattr(train, ROLLOUT)
    whole, streaming = (
        train.do_train_step_and_get_sampling_client,
        train.do_train_step_streaming_and_get_sampling_client,
    )

    async def sample(*args: Any, do_remove_constant_reward_groups: bool, **options: Any) -> TrajectoryGroup | None:
        group = await rollout(*args, do_remove_constant_reward_groups=False, **options)
        if group is None or not all_same(group.get_total_rewards()):
            return group
        constant.append(group)
        return None if do_remove_constant_reward_groups else group

    def add_metrics(metrics: dict[str, Any], kept: Sequence[TrajectoryGroup], builder: EnvGroupBuilder) -> None:
        removed = [group for group in constant if not any(group is other for other in kept)]
        constant.clear()
        groups = [*kept, *removed]
        metrics |= compute_trajectory_metrics(groups, [builder.logging_tags()] * len(groups))
        metrics |= {SAMPLED: float(len(groups)), REMOVED: float(len(removed))}

    async def whole_update(*args: Any) -> Any:
        result = await whole(*args)
        builders, kept = args[-2:]
        add_metrics(result[1], kept, builders[0])
        return result

    async def streaming_update(*args: Any) -> Any:
        result = await streaming(*args)
        if result is not None:
            add_metrics(result[1], [part.trajectory_group for part in result[2]], result[2][0].env_group_builder)
        return result

    setattr(train, ROLLOUT, sample)
    train.do_train_step_and_get_sampling_client = whole_update
    train.do_train_step_streaming_and_get_sampling_client = streaming_update
    try:
        yield
    finally:
        setattr(train, ROLLOUT, rollout)
        train.do_train_step_and_get_sampling_client = whole
        train.do_train_step_streaming_and_get_sampling_client = streaming


Rollouts = Literal["local", "processes", "ray"]


@contextmanager
def rollout_executor(kind: Rollouts, workers: int) -> Iterator[Executor | None]:
    """An executor for group rollouts, or None for rollouts in this process.

    Parameters
    ----------
    kind : "local" | "processes" | "ray"
        ``processes``: freshly started ones on this machine. ``ray``: tasks on the cluster that `RAY_ADDRESS` names, or
        on one that is started here. Workers reach the engine by the environment variables of the Tinker SDK; on a
        cluster that means hosted Tinker, or an engine whose URL all machines can reach.
    workers : int >= 1
        Processes, or rollouts that Ray runs at once.

    Raises
    ------
    ValueError
        If `workers` is below 1, or Ray is asked for and not installed.
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
        with RayExecutor(workers) as cluster:
            yield cluster


class RayExecutor(Executor):
    """`concurrent.futures.Executor` whose calls are Ray tasks."""

    def __init__(self, workers: int):
        try:
            import ray
        except ImportError:
            raise ValueError("rollouts=ray needs Ray: pip install 'scisci-gym[ray]'") from None
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(log_to_driver=False, runtime_env={"env_vars": _engine_address()})
        # A share of a CPU that lets `workers` tasks run at once on what the cluster has.
        cpus = float(ray.cluster_resources().get("CPU", 1.0))
        self._run = ray.remote(num_cpus=cpus / workers, max_retries=2)(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        return self._run.remote(fn, args, kwargs).future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        del wait, cancel_futures
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()


def _call(fn: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def _engine_address() -> dict[str, str]:
    import os

    return {name: os.environ[name] for name in ("TINKER_BASE_URL", "TINKER_API_KEY") if name in os.environ}
