"""Promises handed to clients: pending, finished or failed, and forgotten once they were fetched."""

import asyncio
import time
import uuid
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from ..errors import RequestError

KEEP_FETCHED = 30.0
"""Seconds a fetched result is kept, in case the reply was lost on the way."""
KEEP_UNFETCHED = 3600.0
"""Seconds a finished result waits for a client that may be gone."""


@dataclass
class Promise:
    """One request under way; `key` names it among repeats of the same request."""

    request_id: str
    key: Hashable | None
    future: asyncio.Future[Any]
    job: Any = None
    done_at: float | None = None
    fetched_at: float | None = None


class PromiseStore:
    """All promises of a server. Only `resolve` may be called from other threads than the event loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_id: dict[str, Promise] = {}
        self._by_key: dict[Hashable, str] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, key: Hashable | None) -> Promise | None:
        """The promise of an earlier sending of the same request: clients repeat one when the reply got lost."""
        return self._by_id.get(self._by_key.get(key, "")) if key is not None else None

    def create(self, key: Hashable | None = None) -> Promise:
        promise = Promise(uuid.uuid4().hex, key, self._loop.create_future())
        self._by_id[promise.request_id] = promise
        if key is not None:
            self._by_key[key] = promise.request_id
        return promise

    def get(self, request_id: str) -> Promise:
        promise = self._by_id.get(request_id)
        if promise is None:
            raise RequestError(
                f"request id {request_id!r} is not known: it was fetched before, or the server was restarted",
                status=404,
            )
        return promise

    def resolve(self, promise: Promise, result: Any) -> None:
        """Finish a promise from any thread. The result is dropped if the server has stopped (its loop is closed)."""
        try:
            self._loop.call_soon_threadsafe(self._set, promise, result)
        except RuntimeError:
            if not self._loop.is_closed():
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
