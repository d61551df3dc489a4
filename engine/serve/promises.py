"""Results that were promised to clients: pending, finished or failed, and forgotten once they were fetched."""

import asyncio
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..errors import RequestError
from .scheduler import Job, SampleJob, Scheduler

KEEP_FETCHED = 30.0
"""Seconds a fetched result is kept, in case the reply was lost on the way."""
KEEP_UNFETCHED = 3600.0
"""Seconds a finished result waits for a client that may be gone."""


@dataclass
class Promise:
    """One request under way. `key` names it among repeats of the same request, `job` is what can be cancelled."""

    request_id: str
    key: Hashable | None
    future: asyncio.Future[Any]
    job: SampleJob | None = None
    done_at: float | None = None
    fetched_at: float | None = None


class Promises:
    """All promises of a server, and the worker that keeps them. Only `resolve` may be called from other threads than
    the event loop's.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop: asyncio.AbstractEventLoop | None = None
        self._by_id: dict[str, Promise] = {}
        self._by_key: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def start(self) -> None:
        """Start the worker; called on the event loop."""
        self._loop = asyncio.get_running_loop()
        self._scheduler.start()

    def stop(self) -> None:
        """End the worker after its present job."""
        self._scheduler.stop()

    def promised(self, key: Hashable | None, run: Callable[[], Any], **extra: Any) -> web.Response:
        """Queue work and answer with its request id; a repeat of the same request gets the same id."""
        promise = self.find(key)
        if promise is None:
            promise = self.create(key)
            self._submit(promise, run)
        return web.json_response({"request_id": promise.request_id, **extra})

    async def done(self, run: Callable[[], Any]) -> Any:
        """Run on the worker and wait, for routes that answer directly."""
        promise = self.create()
        self._submit(promise, run)
        result = await promise.future
        self.fetched(promise)
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

    def cancel(self, promise: Promise) -> None:
        """Fail a sampling request, and drop it if it is not being served yet; other requests go on."""
        if promise.job is not None:
            self._scheduler.cancel(promise.job)
            self.resolve(promise, RequestError("the request was cancelled by the client"))
            self.fetched(promise)

    def _submit(self, promise: Promise, run: Callable[[], Any]) -> None:
        self._scheduler.submit(Job(run, lambda result: self.resolve(promise, result)))

    def find(self, key: Hashable | None) -> Promise | None:
        """The promise of an earlier sending of the same request: clients repeat one when the reply got lost."""
        return self._by_id.get(self._by_key.get(key, "")) if key is not None else None

    def create(self, key: Hashable | None = None) -> Promise:
        """A new promise, which nothing keeps yet."""
        assert self._loop is not None, "the server has not started"
        promise = Promise(uuid.uuid4().hex, key, self._loop.create_future())
        self._by_id[promise.request_id] = promise
        if key is not None:
            self._by_key[key] = promise.request_id
        return promise

    def get(self, request_id: str) -> Promise:
        """The promise with this id; a `RequestError` (404) if there is none."""
        promise = self._by_id.get(request_id)
        if promise is None:
            raise RequestError(
                f"request id {request_id!r} is not known: it was fetched before, or the server was restarted",
                status=404,
            )
        return promise

    def resolve(self, promise: Promise, result: Any) -> None:
        """Finish a promise from any thread. The result is dropped if the server has stopped (its loop is closed)."""
        loop = promise.future.get_loop()
        try:
            loop.call_soon_threadsafe(self._set, promise, result)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _set(self, promise: Promise, result: Any) -> None:
        if not promise.future.done():
            promise.future.set_result(result)
            promise.done_at = time.monotonic()
            promise.job = None

    async def wait(self, promise: Promise, seconds: float) -> bool:
        """Whether the promise is finished within `seconds`."""
        done, _ = await asyncio.wait([promise.future], timeout=seconds)
        return bool(done)

    def fetched(self, promise: Promise) -> None:
        """Note that the client has the result: it may be forgotten after `KEEP_FETCHED` seconds."""
        promise.fetched_at = time.monotonic()

    def sweep(self) -> None:
        """Forget results fetched `KEEP_FETCHED` seconds ago, or not fetched within `KEEP_UNFETCHED` seconds."""
        now = time.monotonic()
        for promise in list(self._by_id.values()):
            fetched = promise.fetched_at is not None and now - promise.fetched_at > KEEP_FETCHED
            stale = promise.done_at is not None and now - promise.done_at > KEEP_UNFETCHED
            if fetched or stale:
                del self._by_id[promise.request_id]
                if promise.key is not None and self._by_key.get(promise.key) == promise.request_id:
                    del self._by_key[promise.key]
