"""The HTTP server of the engine: Tinker's protocol on aiohttp, in this process or in a thread of it."""

import asyncio
import contextlib
import hmac
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import torch
from aiohttp import web

from ..compute.checkpoints import EXTERNAL
from ..compute.compat import disable_progress_bar
from ..compute.loading import choose_threads
from ..errors import RequestError
from ..options import EngineOptions
from ..protocol import wire
from .backend import Backend
from .checkpoint_routes import FILES, CheckpointRoutes
from .client_sessions import ClientSessions
from .identity import is_token, new_token
from .promises import Promises, fault
from .routes import Routes
from .scheduler import Scheduler

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
API = "/api/v1"
CLIENT_CONFIG = {
    "parallel_fwdbwd_chunks": False,
    "proto_compress_fwdbwd": False,
    "sample_enable_stuck_detection": False,
    "sample_join_sampling_session": True,
    "pjwt_auth_enabled": True,
}


class Server:
    """The routes of one server, and its key. Making one sets the number of torch threads of this process."""

    def __init__(self, options: EngineOptions) -> None:
        torch.set_num_threads(choose_threads(options.threads))
        disable_progress_bar()
        self.options = options
        self.backend = backend = Backend(options)
        self._worker = Scheduler(backend.serve_samples, backend.prepare_samples, options.gather_seconds)
        self.promises = Promises(self._worker, backend.sessions)
        self.clients = ClientSessions(backend, self.promises)

    def _application(self) -> web.Application:
        routes = Routes(self.backend, self.promises, self.clients)
        saved = CheckpointRoutes(self.backend, self.promises)
        checkpoint = "training_runs/{id}/checkpoints/{checkpoint:.+}"
        app = web.Application(client_max_size=wire.MAX_BODY, middlewares=[self._guard])
        for route, path, handler in (
            (web.get, "healthz", _always({"status": "ok"})),
            (web.post, "client/config", _always(CLIENT_CONFIG)),
            (web.post, "client/dynamic_config", _always({"sample_cancel_enabled": True})),
            (web.post, "telemetry", _always({"status": "accepted"})),
            (web.post, "auth/token", self._token),
            (web.post, "retrieve_future", self.promises.retrieve_future),
            (web.post, "retrieve_futures", self.promises.retrieve_futures),
            (web.post, "cancel_future", self.promises.cancel_future),
            (web.post, "create_session", self.clients.create_session),
            (web.post, "session_heartbeat", self.clients.session_heartbeat),
            (web.post, "sessions/{id}/finish", self.clients.finish_session),
            (web.get, "sessions", self.clients.sessions),
            (web.get, "sessions/{id}", self.clients.session),
            (web.post, "create_model", routes.create_model),
            (web.post, "get_info", routes.get_info),
            (web.post, "forward_backward", routes.forward_backward),
            (web.post, "optim_step", routes.optim_step),
            (web.post, "save_weights", routes.save_weights),
            (web.post, "save_weights_for_sampler", routes.save_weights_for_sampler),
            (web.post, "load_weights", routes.load_weights),
            (web.post, "copy_weights", saved.copy_weights),
            (web.post, "save_weights_external", routes.save_weights_external),
            (web.get, f"training_runs/{{id}}/checkpoints/{EXTERNAL}/{{name}}/external_weights_urls", saved.urls),
            (web.get, f"{FILES}/{{id}}/{{name}}/{{file}}", saved.file),
            (web.post, "create_sampling_session", routes.create_sampling_session),
            (web.post, "join_sampling_session", routes.join_sampling_session),
            (web.get, "samplers/{id}", routes.sampler),
            (web.post, "asample", routes.asample),
            (web.get, "get_server_capabilities", saved.capabilities),
            (web.post, "weights_info", saved.weights_info),
            (web.get, "training_runs", saved.training_runs),
            (web.get, "training_runs/{id}", saved.training_run),
            (web.get, "training_runs/{id}/checkpoints", saved.checkpoints),
            (web.get, "checkpoints", saved.checkpoints),
            (web.delete, checkpoint, saved.delete_checkpoint),
            (web.put, f"{checkpoint}/ttl", saved.accept_ttl),
        ):
            app.add_routes([route(f"{API}/{path}", handler)])
        return app

    async def listen(self, stop: asyncio.Event, ready: Callable[[str], None]) -> None:
        """Answer requests until `stop` is set; `ready` receives the address."""
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1.0, auto_decompress=False)
        await runner.setup()
        self._worker.start()
        sweeper = asyncio.create_task(self._sweep())
        try:
            await web.TCPSite(runner, self.options.host, self.options.port).start()
            ready(f"http://{self.options.host}:{runner.addresses[0][1]}")
            await stop.wait()
        finally:
            sweeper.cancel()
            await runner.cleanup()
            self._worker.stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(10)
            self.promises.sweep()
            self.clients.sweep()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Check the key, and turn every fault into an answer."""
        try:
            open_to_all = (f"{API}/healthz", f"{API}/{FILES}/")
            if self.options.api_key is not None and not request.path.startswith(open_to_all):
                given = request.headers.get("X-API-Key", "")
                key = self.options.api_key
                if not hmac.compare_digest(given.encode(), key.encode()) and not is_token(key, given):
                    refusal = _refusal("the X-API-Key header is missing or wrong; set TINKER_API_KEY", 401)
                    if given.startswith("eyJ"):  # A token of an engine with another key, or an old one.
                        refusal.headers["WWW-Authenticate"] = 'Bearer error="invalid_token"'
                    return refusal
            return await handler(request)
        except RequestError as error:
            return _refusal(str(error), error.status)
        except web.HTTPException as error:
            return _refusal(f"{request.method} {request.path}: {error.reason}", error.status)
        except Exception as error:
            logger.exception("%s %s failed", request.method, request.path)
            return _refusal(fault(error), 500)

    async def _token(self, _request: web.Request) -> web.Response:
        """A token that names the one user there is; see `identity`."""
        return web.json_response({"jwt": new_token(self.options.api_key or "")})


def _always(answer: dict[str, Any]) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response(answer)

    return handler


def _refusal(message: str, status: int) -> web.Response:
    category = "server" if status >= 500 else "user"
    return web.json_response({"error": message, "detail": message, "category": category}, status=status)


def serve(options: EngineOptions, ready: Callable[[str], None] | None = None, parent: int | None = None) -> None:
    """Serve in this process until SIGINT, SIGTERM, or the end of the process `parent`; `ready` gets the address."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    server = Server(options)

    def announce(url: str) -> None:
        print(f"engine listening on {url}", flush=True)
        if ready is not None:
            ready(url)

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        watch = asyncio.create_task(_watch_parent(parent, stop)) if parent is not None else None
        await server.listen(stop, announce)
        if watch is not None:
            watch.cancel()

    asyncio.run(main())


def serve_parent(parent: int, address: int) -> None:
    """Serve the process that started this one, as long as it lives.

    The options come through the standard input as JSON (arguments can be read by everybody on the machine, and the key
    is among them), and the address goes to the file descriptor `address`.
    """

    def ready(url: str) -> None:
        with open(address, "w") as pipe:
            pipe.write(url)

    serve(EngineOptions(**json.load(sys.stdin)), ready, parent)


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    """Stop when the parent process has ended: one that was killed cannot stop this process itself."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    logger.warning("the process that started this server (%d) is gone; stopping", parent)
    stop.set()
    # The worker thread may be in the middle of a long batch; with the parent gone, no client waits for its result.
    await asyncio.sleep(5)
    os._exit(1)


class ServerThread:
    """A server in a thread of this process. It suits debugging; client and server share one GIL, so it is slower."""

    def __init__(self, options: EngineOptions) -> None:
        self.server = Server(options)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._address: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="engine-server", daemon=True)

    def start(self) -> str:
        self._thread.start()
        if (error := self._address.exception()) is not None:
            raise RuntimeError(f"the engine did not start: {error}") from error
        return self._address.result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self.server.listen(self._stop, self._address.set_result))
        except BaseException as error:
            if self._address.done():
                raise
            self._address.set_exception(error)
        finally:
            self._loop.close()

    def stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)
