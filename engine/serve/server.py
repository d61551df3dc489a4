"""The HTTP server of the engine: Tinker's protocol on aiohttp, in this process or in a thread of it."""

import asyncio
import contextlib
import hmac
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import torch
from aiohttp import web

from ..compute.compat import disable_progress_bar
from ..compute.loading import choose_threads
from ..errors import RequestError
from ..options import EngineOptions
from ..protocol import messages as m
from ..protocol import wire
from .backend import Backend
from .client_sessions import ClientSessions
from .promises import Promises
from .routes import RestRoutes, SamplingRoutes, TrainingRoutes
from .scheduler import Scheduler

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
    """The routes of one server, and its key. Making one sets the number of torch threads of this process."""

    def __init__(self, options: EngineOptions) -> None:
        torch.set_num_threads(choose_threads(options.threads))
        disable_progress_bar()
        self.options = options
        self.backend = backend = Backend(options)
        self.promises = Promises(
            Scheduler(backend.serve_samples, options.gather_seconds, prepare_samples=backend.prepare_samples)
        )
        self.clients = ClientSessions(backend, self.promises)

    def application(self) -> web.Application:
        """The routes; the worker runs as long as the application does."""
        app = web.Application(client_max_size=wire.MAX_BODY, middlewares=[self._guard])
        post = app.router.add_post
        app.router.add_get(f"{API}/healthz", _always({"status": "ok"}))
        post(f"{API}/client/config", _always(CLIENT_CONFIG))
        post(f"{API}/client/dynamic_config", _always({"sample_cancel_enabled": True}))
        post(f"{API}/telemetry", _always({"status": "accepted"}))
        post(f"{API}/retrieve_future", self.retrieve_future)
        post(f"{API}/cancel_future", self.cancel_future)
        self.clients.add_to(app, API)
        TrainingRoutes(self.backend, self.promises, self.clients).add_to(app, API)
        SamplingRoutes(self.backend, self.promises, self.clients).add_to(app, API)
        RestRoutes(self.backend, self.promises).add_to(app, API)
        app.cleanup_ctx.append(self._running)
        return app

    async def listen(self, stop: asyncio.Event, ready: Callable[[str], None]) -> None:
        """Answer requests until `stop` is set; `ready` receives the address."""
        runner = web.AppRunner(self.application(), access_log=None, shutdown_timeout=1.0, auto_decompress=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.options.host, self.options.port).start()
            ready(f"http://{self.options.host}:{runner.addresses[0][1]}")
            await stop.wait()
        finally:
            await runner.cleanup()

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        self.promises.start()
        sweeper = asyncio.create_task(self._sweep())
        yield
        sweeper.cancel()
        self.promises.stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(10)
            self.promises.sweep()
            self.clients.sweep()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn every fault into an answer."""
        try:
            if self.options.api_key is not None and not request.path.endswith("/healthz"):
                given = request.headers.get("X-API-Key", "")
                if not hmac.compare_digest(given.encode(), self.options.api_key.encode()):
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
        """The result of a promise, or 408 while there is none."""
        body = m.parse(m.RetrieveFuture, await request.read())
        promise = self.promises.get(body.request_id)
        if not await self.promises.wait(promise, POLL_SECONDS):
            pending = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
            return web.json_response(pending, status=408)
        result = promise.future.result()
        self.promises.fetched(promise)
        if isinstance(result, Exception):
            return web.json_response(_failure(result))
        if isinstance(result, bytes):
            return web.Response(body=result, content_type="application/x-protobuf")
        return web.json_response(result)

    async def cancel_future(self, request: web.Request) -> web.Response:
        """Cancel a sampling request; other requests go on."""
        body = m.parse(m.RetrieveFuture, await request.read())
        self.promises.cancel(self.promises.get(body.request_id))
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


def serve(options: EngineOptions) -> None:
    """Serve in this process until SIGINT, SIGTERM, or the end of the process `options.parent`."""
    server = Server(options)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        watch = asyncio.create_task(_watch_parent(options.parent, stop)) if options.parent else None
        await server.listen(stop, lambda url: _announce(url, options.announce))
        if watch is not None:
            watch.cancel()

    asyncio.run(main())


class ServerThread:
    """A server in a thread of this process. It suits debugging; client and server share one GIL, so it is slower."""

    def __init__(self, options: EngineOptions) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self.url = ""
        self.server = Server(options)
        self._thread = threading.Thread(target=self._run, name="engine-server", daemon=True)

    def start(self) -> str:
        """Start listening and return the address."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise RuntimeError(f"the engine did not start: {self._error}") from self._error
        return self.url

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self.server.listen(self._stop, self._announce))
        except BaseException as error:
            self._error = error
            self._ready.set()
        finally:
            self._loop.close()

    def _announce(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def stop(self) -> None:
        """Stop listening and wait for the thread to end."""
        with contextlib.suppress(RuntimeError):  # the loop has closed already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    """Stop when the parent process has ended: one that was killed cannot stop this process itself."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    logger.warning("the process that started this server (%d) is gone; stopping", parent)
    stop.set()
    # The worker thread may be in the middle of a long batch; with the parent gone, no client waits for its result.
    await asyncio.sleep(5)
    os._exit(1)


def _announce(url: str, file: str | None) -> None:
    print(f"engine listening on {url}", flush=True)
    if file is not None:
        partial = Path(f"{file}.tmp")
        partial.write_text(url)
        os.replace(partial, file)
