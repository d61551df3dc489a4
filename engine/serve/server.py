"""The HTTP face of the engine: Tinker's protocol on aiohttp."""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from ..errors import RequestError
from ..protocol import messages as m
from ..protocol import wire
from .backend import Backend
from .client_sessions import ClientSessions
from .promises import PromiseStore
from .rest_routes import RestRoutes
from .sampling_routes import SamplingRoutes
from .scheduler import SampleJob, Scheduler
from .training_routes import TrainingRoutes
from .work import Work

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
API = "/api/v1"
POLL_SECONDS = 30.0
"""How long a poll for an unfinished result is held before it is answered with 408."""
CLIENT_CONFIG = {
    "parallel_fwdbwd_chunks": False,
    "proto_compress_fwdbwd": False,
    "sample_enable_stuck_detection": False,
    "sample_join_sampling_session": True,
}


class Server:
    """The routes of one server, and its key.

    Parameters
    ----------
    backend
        What does the work.
    api_key
        Required of every request but the health check; None lets everybody in (fit for 127.0.0.1 only).
    gather_seconds
        See `Scheduler`.
    """

    def __init__(self, backend: Backend, api_key: str | None = None, gather_seconds: float = 0.04) -> None:
        self.backend = backend
        self._api_key = api_key
        self.work = Work(
            Scheduler(backend.serve_samples, quiet_seconds=gather_seconds, prepare_samples=backend.prepare_samples)
        )
        self._sessions = ClientSessions(backend, self.work)

    @property
    def promises(self) -> PromiseStore:
        return self.work.promises

    def application(self) -> web.Application:
        app = web.Application(client_max_size=wire.MAX_BODY, middlewares=[self._guard])
        post = app.router.add_post
        app.router.add_get(f"{API}/healthz", _always({"status": "ok"}))
        post(f"{API}/client/config", _always(CLIENT_CONFIG))
        post(f"{API}/client/dynamic_config", _always({"sample_cancel_enabled": True}))
        post(f"{API}/telemetry", _always({"status": "accepted"}))
        self._sessions.add_to(app, API)
        TrainingRoutes(self.backend, self.work, self._sessions).add_to(app, API)
        SamplingRoutes(self.backend, self.work, self._sessions).add_to(app, API)
        post(f"{API}/retrieve_future", self.retrieve_future)
        post(f"{API}/cancel_future", self.cancel_future)
        RestRoutes(self.backend, self.work).add_to(app, API)
        app.cleanup_ctx.append(self._running)
        return app

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        self.work.start()
        sweeper = asyncio.create_task(self._sweep())
        yield
        sweeper.cancel()
        self.work.stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(10)
            self.promises.sweep()
            self._sessions.sweep()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn every fault into an answer."""
        try:
            if self._api_key is not None and not request.path.endswith("/healthz"):
                given = request.headers.get("X-API-Key", "")
                if not hmac.compare_digest(given.encode(), self._api_key.encode()):
                    raise RequestError("the X-API-Key header is missing or wrong; set TINKER_API_KEY", status=401)
            return await handler(request)
        except RequestError as error:
            return _refusal(str(error), error.status)
        except web.HTTPException as error:
            return _refusal(f"{request.method} {request.path}: {error.reason}", error.status)
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return _refusal(f"the engine failed: {type(error).__name__}: {error}", 500)

    async def retrieve_future(self, request: web.Request) -> web.Response:
        body = m.parse(m.RetrieveFuture, await request.read())
        promise = self.work.promises.get(body.request_id)
        if not await self.work.promises.wait(promise, POLL_SECONDS):
            pending = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
            return web.json_response(pending, status=408)
        result = promise.future.result()
        self.work.promises.fetched(promise)
        if isinstance(result, Exception):
            return web.json_response(_failure(result))
        if isinstance(result, bytes):
            return web.Response(body=result, content_type="application/x-protobuf")
        return web.json_response(result)

    async def cancel_future(self, request: web.Request) -> web.Response:
        body = m.parse(m.RetrieveFuture, await request.read())
        promise = self.work.promises.get(body.request_id)
        if isinstance(promise.job, SampleJob):
            self.work.cancel(promise.job)
            self.work.promises.resolve(promise, RequestError("the request was cancelled by the client"))
            self.work.promises.fetched(promise)
        return web.json_response({})


def _always(answer: dict[str, Any]) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response(answer)

    return handler


def _refusal(message: str, status: int) -> web.Response:
    category = "server" if status >= 500 else "user"
    return web.json_response({"error": message, "detail": message, "category": category}, status=status)


def _failure(error: Exception) -> dict[str, str]:
    if isinstance(error, RequestError):
        return {"error": str(error), "category": error.category}
    logger.error("a request failed", exc_info=error)
    return {"error": f"the engine failed: {type(error).__name__}: {error}", "category": "server"}
