"""Rollouts in other processes, or on a Ray cluster, through the cookbook's `rollout_executor`."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

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
    return {name: os.environ[name] for name in ("TINKER_BASE_URL", "TINKER_API_KEY") if name in os.environ}
