"""Work for the worker thread, and the promises that clients wait on."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from .promises import Promise, PromiseStore
from .scheduler import Job, SampleJob, Scheduler


class Work:
    """Scheduler and promises of a server. Its methods are called on the event loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._promises: PromiseStore | None = None

    @property
    def promises(self) -> PromiseStore:
        assert self._promises is not None, "the server has not started"
        return self._promises

    def start(self) -> None:
        """Start the worker; called on the event loop."""
        self._promises = PromiseStore(asyncio.get_running_loop())
        self._scheduler.start()

    def stop(self) -> None:
        self._scheduler.stop()

    def promised(self, key: tuple[Any, ...] | None, run: Callable[[], Any], **extra: Any) -> web.Response:
        """Queue work and answer with its request id; a repeat of the same request gets the same id."""
        promise = self.promises.find(key)
        if promise is None:
            promise = self.promises.create(key)
            self._scheduler.submit(Job(run, self._report(promise)))
        return web.json_response({"request_id": promise.request_id, **extra})

    async def done(self, run: Callable[[], Any]) -> Any:
        """Run on the worker and wait, for routes that answer directly."""
        promise = self.promises.create()
        self._scheduler.submit(Job(run, self._report(promise)))
        result = await promise.future
        self.promises.fetched(promise)
        if isinstance(result, Exception):
            raise result
        return result

    def later(self, run: Callable[[], Any]) -> None:
        """Run on the worker; the result is dropped."""
        self._scheduler.submit(Job(run, lambda _: None))

    def sample(self, promise: Promise, job: SampleJob) -> None:
        """Queue a sampling request."""
        promise.job = job
        self._scheduler.submit(job)

    def cancel(self, job: SampleJob) -> None:
        """Drop a sampling request if it is not being served yet."""
        self._scheduler.cancel(job)

    def _report(self, promise: Promise) -> Callable[[Any], None]:
        return lambda result: self.promises.resolve(promise, result)
