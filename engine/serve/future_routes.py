"""The routes by which clients ask for the results that they were promised, one by one or by sampling session."""

import logging
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..errors import RequestError
from ..protocol import messages as m
from .promises import Promise, Promises
from .sampling_sessions import SamplingSessions

logger = logging.getLogger(__name__)

POLL_SECONDS = 30.0
"""How long a poll for an unfinished result is held before it is answered with 408."""


def fault(error: Exception) -> str:
    """What clients are told of an exception that no request has caused."""
    return f"the engine failed: {type(error).__name__}: {error}"


@dataclass
class FutureRoutes:
    """Promised results."""

    promises: Promises
    sessions: SamplingSessions

    async def retrieve_future(self, request: web.Request) -> web.Response:
        """The result of a promise, or 408 while there is none."""
        promise = self.promises.get(m.parse(m.RetrieveFuture, await request.read()).request_id)
        if not await self.promises.wait(promise, POLL_SECONDS):
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

    async def retrieve_futures(self, request: web.Request) -> web.Response:
        """Which requests of a sampling session's client have finished since the last poll; their results stay here."""
        body = m.parse(m.RetrieveFutures, await request.read())
        session = self.sessions.get(body.target.sampling_session_id)
        for request_id in body.retrieved_request_ids:
            self.promises.fetched(request_id)
        seconds = POLL_SECONDS if body.timeout is None else min(body.timeout, POLL_SECONDS)
        client = (session.session_id, body.target.cloned_sampler_id)
        done = await self.promises.finished(client, body.prev_cursor, seconds)
        cursor = max([body.prev_cursor, *(promise.number or 0 for promise in done)])
        return web.json_response({"completions": [_completion(promise) for promise in done], "cursor": cursor})

    async def cancel_future(self, request: web.Request) -> web.Response:
        """Cancel a sampling request; other requests go on."""
        self.promises.cancel(self.promises.get(m.parse(m.RetrieveFuture, await request.read()).request_id))
        return web.json_response({})


def _completion(promise: Promise) -> dict[str, Any]:
    result = promise.future.result()
    if not isinstance(result, bytes):
        return {"state": "failed", "request_id": promise.request_id}
    return {
        "state": "finished",
        "request_id": promise.request_id,
        "response_payload_uncompressed_size": len(result),
    }
