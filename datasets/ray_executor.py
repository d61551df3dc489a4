"""Ray, which is optional, behind the interface of the standard library's executors."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any


class RayMissing(ImportError, ValueError):
    """Ray was asked for and is not installed."""


class RayExecutor(Executor):
    """`concurrent.futures.Executor` whose calls are Ray tasks. When a worker dies, Ray runs its task again.

    Parameters
    ----------
    option : str
        The option that asks for Ray, for the error (`RayMissing`) if Ray is not installed.
    address : str or None
        Of a cluster: "auto", "local" or "ray://...". None: the one that this process is connected to, or that
        ``RAY_ADDRESS`` names, or a new one on this machine.
    workers, retries : int
        Tasks that the whole cluster runs at once (None: one for each of its CPUs); how often one is run again.
    environment : mapping
        Environment variables of the workers, if the connection is made here.
    """

    def __init__(
        self,
        option: str,
        address: str | None = None,
        *,
        workers: int | None = None,
        retries: int = 3,
        environment: Mapping[str, str] | None = None,
    ):
        try:
            self._ray = import_module("ray")
        except ImportError as error:
            raise RayMissing(f"{option} needs Ray: pip install 'scisci-gym[ray]'") from error
        self._started = not self._ray.is_initialized()
        if self._started:
            runtime = {"env_vars": dict(environment)} if environment else None
            self._ray.init(None if address == "local" else address, log_to_driver=False, runtime_env=runtime)
        # A share of a CPU that lets `workers` tasks run at once on what the cluster has.
        cpus = 1.0 if workers is None else float(self._ray.cluster_resources().get("CPU", 1.0)) / workers
        self._run = self._ray.remote(num_cpus=cpus, max_retries=retries)(_call)

    def share(self, value: Any) -> Any:
        """Put a value into the cluster's memory once; what is returned stands for it as an argument of many calls."""
        return self._ray.put(value)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Start ``fn(*args, **kwargs)`` on the cluster."""
        task = self._run.options(name=getattr(fn, "__name__", type(fn).__name__))
        return task.remote(fn, *args, **kwargs).future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the connection, if it was made here; calls that still run are lost."""
        del wait, cancel_futures
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()


def _call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)
