"""Results that were promised to clients: pending, finished or failed, and forgotten once they were fetched."""

import asyncio
import contextlib
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..errors import RequestError
from ..protocol import messages as m
from .sampling_sessions import SamplingSessions
from .scheduler import Job, SampleJob, Scheduler

logger = logging.getLogger(__name__)

KEEP_FETCHED = 30.0
"""Seconds a fetched result is kept, in case the reply was lost on the way."""
KEEP_UNFETCHED = 3600.0
"""Seconds a finished result waits for a client that may be gone."""
POLL_SECONDS = 30.0
"""How long a poll for an unfinished result is held before it is answered with 408."""


def fault(error: Exception) -> str:
    """What clients are told of an exception that no request has caused."""
    return f"the engine failed: {type(error).__name__}: {error}"


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
    """All promises of a server, and the routes by which clients ask for their results, one by one or by sampling
    session. They are made, kept and forgotten on the event loop only.
    """

    def __init__(self, scheduler: Scheduler, sessions: SamplingSessions) -> None:
        self._scheduler, self._sessions = scheduler, sessions
        self._by_id: dict[str, Promise] = {}
        self._by_key: dict[Hashable, Promise] = {}
        self._numbers = itertools.count(1)
        self._waiting: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._by_id)

    def promised(self, key: Hashable | None, run: Callable[[], Any], **extra: Any) -> web.Response:
        """Queue work and answer with its request id; a repeat of the same request gets the same id."""
        return web.json_response({"request_id": self._queued(key, run).request_id, **extra})

    async def done(self, run: Callable[[], Any], key: Hashable | None = None) -> Any:
        """Run on the worker and wait, for routes that answer directly; a repeat of the same request runs nothing."""
        promise = self._queued(key, run)
        await promise.future
        result = promise.fetch()
        if isinstance(result, Exception):
            raise result
        return result

    def later(self, run: Callable[[], Any]) -> None:
        """Run on the worker; the result is dropped."""
        self._scheduler.submit(Job(run, lambda _: None))

    def sample(self, promise: Promise, job: SampleJob) -> None:
        promise.job = job
        self._scheduler.submit(job)

    def _queued(self, key: Hashable | None, run: Callable[[], Any]) -> Promise:
        promise = self.find(key)
        if promise is None:
            promise = self.create(key)
            self._scheduler.submit(Job(run, promise.resolve))
        return promise

    def find(self, key: Hashable | None) -> Promise | None:
        """The promise of an earlier sending of the same request: clients repeat one when the reply got lost."""
        return self._by_key.get(key)

    def create(self, key: Hashable | None, client: Hashable | None = None) -> Promise:
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

    def sweep(self) -> None:
        """Forget results fetched `KEEP_FETCHED` seconds ago, or not fetched within `KEEP_UNFETCHED` seconds."""
        now = time.monotonic()
        for promise in list(self._by_id.values()):
            fetched = promise.fetched_at is not None and now - promise.fetched_at > KEEP_FETCHED
            stale = promise.done_at is not None and now - promise.done_at > KEEP_UNFETCHED
            if fetched or stale:
                del self._by_id[promise.request_id]
                self._by_key.pop(promise.key, None)

    async def _asked_for(self, request: web.Request) -> Promise:
        request_id = m.parse(m.RetrieveFuture, await request.read()).request_id
        if request_id not in self._by_id:
            raise RequestError(
                f"request id {request_id!r} is not known: it was fetched before, or the server was restarted",
                status=404,
            )
        return self._by_id[request_id]

    async def retrieve_future(self, request: web.Request) -> web.Response:
        """The result of a promise, or 408 while there is none."""
        promise = await self._asked_for(request)
        done, _ = await asyncio.wait([promise.future], timeout=POLL_SECONDS)
        if not done:
            pending = {"type": "try_again", "request_id": promise.request_id, "queue_state": "active"}
            return web.json_response(pending, status=408)
        result = promise.fetch()
        if isinstance(result, bytes):
            return web.Response(body=result, content_type="application/x-protobuf")
        if isinstance(result, RequestError):
            result = {"error": str(result), "category": "user"}
        elif isinstance(result, Exception):
            logger.error("a request failed", exc_info=result)
            result = {"error": fault(result), "category": "server"}
        return web.json_response(result)

    async def cancel_future(self, request: web.Request) -> web.Response:
        """Fail a sampling request, and drop it if it is not being served yet; other requests go on."""
        promise = await self._asked_for(request)
        if promise.job is not None:
            promise.job.cancelled = True
            promise.resolve(RequestError("the request was cancelled by the client"))
            promise.fetched_at = time.monotonic()
        return web.json_response({})

    async def retrieve_futures(self, request: web.Request) -> web.Response:
        """Which requests of a sampling session's client have finished since the last poll; their results stay here."""
        body = m.parse(m.RetrieveFutures, await request.read())
        session = self._sessions.get(body.target.sampling_session_id)
        for request_id in body.retrieved_request_ids:
            promise = self._by_id.get(request_id)
            if promise is not None and promise.fetched_at is None and promise.future.done():
                promise.fetched_at = time.monotonic()
        seconds = POLL_SECONDS if body.timeout is None else min(body.timeout, POLL_SECONDS)
        client = (session.session_id, body.target.cloned_sampler_id)
        done = await self._finished_after(body.prev_cursor, client, seconds)
        cursor = max([body.prev_cursor, *(promise.number or 0 for promise in done)])
        return web.json_response({"completions": [_completion(promise) for promise in done], "cursor": cursor})

    async def _finished_after(self, number: int, client: Hashable, seconds: float) -> list[Promise]:
        """The promises of a client that finished later than this number, in that order.

        If there are none it waits for one, at most so many seconds.
        """
        deadline = time.monotonic() + seconds
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            while True:
                event.clear()
                mine = [p for p in self._by_id.values() if p.client == client and (p.number or 0) > number]
                left = deadline - time.monotonic()
                if mine or left <= 0:
                    return sorted(mine, key=lambda promise: promise.number or 0)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), left)
        finally:
            self._waiting.discard(event)


def _completion(promise: Promise) -> dict[str, Any]:
    result = promise.future.result()
    if not isinstance(result, bytes):
        return {"state": "failed", "request_id": promise.request_id}
    return {
        "state": "finished",
        "request_id": promise.request_id,
        "response_payload_uncompressed_size": len(result),
    }
