"""Results that were promised to clients: pending, finished or failed, and forgotten once they were fetched."""

import asyncio
import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..errors import RequestError
from .gathering import SampleJob
from .scheduler import Job, Scheduler

KEEP_FETCHED = 30.0
"""Seconds a fetched result is kept, in case the reply was lost on the way."""
KEEP_UNFETCHED = 3600.0
"""Seconds a finished result waits for a client that may be gone."""


@dataclass
class Promise:
    """One request under way. `key` names it among repeats of the same request, `job` is what can be cancelled.

    A sampling request belongs to the `client` of a sampling session (the session's id and the client's number).
    `number` counts the finished promises of the server.
    """

    request_id: str
    key: Hashable | None
    future: asyncio.Future[Any]
    client: Hashable | None = None
    job: SampleJob | None = None
    number: int | None = None
    done_at: float | None = None
    fetched_at: float | None = None

    def resolve(self, result: Any) -> None:
        """Finish it from any thread. The result is dropped if the server has stopped (its loop is closed)."""
        loop = self.future.get_loop()
        try:
            loop.call_soon_threadsafe(self._set, result)
        except RuntimeError:
            if not loop.is_closed():
                raise

    def _set(self, result: Any) -> None:
        if not self.future.done():
            self.future.set_result(result)
            self.done_at = time.monotonic()
            self.job = None

    def fetch(self) -> Any:
        """The result of a finished promise, which may be forgotten `KEEP_FETCHED` seconds later."""
        self.fetched_at = time.monotonic()
        return self.future.result()


class Promises:
    """All promises of a server. They are made, kept and forgotten on the event loop only."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._by_id: dict[str, Promise] = {}
        self._by_key: dict[Hashable, Promise] = {}
        self._numbers = itertools.count(1)
        self._waiting: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def promised(self, key: Hashable | None, run: Callable[[], Any], **extra: Any) -> web.Response:
        """Queue work and answer with its request id; a repeat of the same request gets the same id."""
        promise = self.find(key) or self._run(self.create(key), run)
        return web.json_response({"request_id": promise.request_id, **extra})

    async def done(self, run: Callable[[], Any], key: Hashable | None = None) -> Any:
        """Run on the worker and wait, for routes that answer directly; a repeat of the same request runs nothing."""
        promise = self.find(key) or self._run(self.create(key), run)
        await promise.future
        result = promise.fetch()
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
            promise.job.cancelled = True
            promise.resolve(RequestError("the request was cancelled by the client"))
            promise.fetched_at = time.monotonic()

    def _run(self, promise: Promise, run: Callable[[], Any]) -> Promise:
        self._scheduler.submit(Job(run, promise.resolve))
        return promise

    def find(self, key: Hashable | None) -> Promise | None:
        """The promise of an earlier sending of the same request: clients repeat one when the reply got lost."""
        return self._by_key.get(key)

    def create(self, key: Hashable | None = None, client: Hashable | None = None) -> Promise:
        """A new promise, which nothing keeps yet."""
        promise = Promise(uuid.uuid4().hex, key, asyncio.get_running_loop().create_future(), client)
        promise.future.add_done_callback(lambda _: self._finished(promise))
        self._by_id[promise.request_id] = promise
        if key is not None:
            self._by_key[key] = promise
        return promise

    def _finished(self, promise: Promise) -> None:
        promise.number = next(self._numbers)
        for event in self._waiting:
            event.set()

    async def wait(self, promise: Promise, seconds: float) -> bool:
        """Wait until a promise has finished, at most so many seconds; whether it has."""
        return bool((await asyncio.wait([promise.future], timeout=seconds))[0])

    def fetched(self, request_id: str) -> None:
        """Let go of a result that its client says it has; of one that is not known there is nothing to let go."""
        promise = self._by_id.get(request_id)
        if promise is not None and promise.fetched_at is None and promise.future.done():
            promise.fetched_at = time.monotonic()

    async def finished(self, client: Hashable, after: int, seconds: float) -> list[Promise]:
        """The promises of a client that finished later than number `after`, in that order.

        If there are none it waits for one, at most so many seconds.
        """
        deadline = time.monotonic() + seconds
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            while True:
                event.clear()
                mine = [(p.number, p) for p in self._by_id.values() if p.client == client and (p.number or 0) > after]
                left = deadline - time.monotonic()
                if mine or left <= 0:
                    return [promise for _, promise in sorted(mine, key=lambda item: item[0] or 0)]
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), left)
        finally:
            self._waiting.discard(event)

    def get(self, request_id: str) -> Promise:
        """The promise with this id; a `RequestError` (404) if there is none."""
        promise = self._by_id.get(request_id)
        if promise is None:
            raise RequestError(
                f"request id {request_id!r} is not known: it was fetched before, or the server was restarted",
                status=404,
            )
        return promise

    def sweep(self) -> None:
        """Forget results fetched `KEEP_FETCHED` seconds ago, or not fetched within `KEEP_UNFETCHED` seconds."""
        now = time.monotonic()
        for promise in list(self._by_id.values()):
            fetched = promise.fetched_at is not None and now - promise.fetched_at > KEEP_FETCHED
            stale = promise.done_at is not None and now - promise.done_at > KEEP_UNFETCHED
            if fetched or stale:
                del self._by_id[promise.request_id]
                if promise.key is not None and self._by_key.get(promise.key) is promise:
                    del self._by_key[promise.key]
