"""The HTTP face of the engine: Tinker's routes on aiohttp."""

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from . import messages as m
from . import wire
from .backend import Backend
from .errors import RequestError
from .futures import Promise, PromiseStore
from .rest import RestRoutes
from .sample_requests import sample_request
from .scheduler import Job, SampleJob, Scheduler
from .training import AdamSettings

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
POLL_SECONDS = 30.0
"""How long a poll for an unfinished result is held before it is answered with 408."""
SESSION_SECONDS = 1800.0
"""A client that sent no heartbeat for this long is gone, and its models with it."""


class Server:
    """Routes, sessions and promises of one server.

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
        self._scheduler = Scheduler(
            backend.serve_samples, quiet_seconds=gather_seconds, prepare_samples=backend.prepare_samples
        )
        self._promises: PromiseStore | None = None
        self._last_seen: dict[str, float] = {}
        self._joined: dict[str, int] = {}

    @property
    def promises(self) -> PromiseStore:
        assert self._promises is not None, "the server has not started"
        return self._promises

    def application(self) -> web.Application:
        app = web.Application(client_max_size=wire.MAX_BODY, middlewares=[self._guard])
        post = app.router.add_post
        api = "/api/v1"
        config = {
            "parallel_fwdbwd_chunks": False,
            "proto_compress_fwdbwd": False,
            "sample_enable_stuck_detection": False,
        }
        config |= {"sample_join_sampling_session": True}
        app.router.add_get(f"{api}/healthz", _always({"status": "ok"}))
        post(f"{api}/client/config", _always(config))
        post(f"{api}/client/dynamic_config", _always({"sample_cancel_enabled": True}))
        post(f"{api}/telemetry", _always({"status": "accepted"}))
        post(f"{api}/create_session", self.create_session)
        post(f"{api}/session_heartbeat", self.heartbeat)
        post(f"{api}/sessions/{{id}}/finish", self.finish_session)
        post(f"{api}/create_model", self.create_model)
        post(f"{api}/get_info", self.get_info)
        post(f"{api}/forward_backward", self.forward_backward)
        post(f"{api}/optim_step", self.optim_step)
        post(f"{api}/save_weights", self.save_weights)
        post(f"{api}/save_weights_for_sampler", self.save_weights_for_sampler)
        post(f"{api}/load_weights", self.load_weights)
        post(f"{api}/create_sampling_session", self.create_sampling_session)
        post(f"{api}/join_sampling_session", self.join_sampling_session)
        app.router.add_get(f"{api}/samplers/{{id}}", self.sampler)
        post(f"{api}/asample", self.asample)
        post(f"{api}/retrieve_future", self.retrieve_future)
        post(f"{api}/cancel_future", self.cancel_future)
        RestRoutes(self.backend).add_to(app)
        app.cleanup_ctx.append(self._running)
        return app

    async def _running(self, _app: web.Application) -> AsyncIterator[None]:
        self._promises = PromiseStore(asyncio.get_running_loop())
        self._scheduler.start()
        sweeper = asyncio.create_task(self._sweep())
        yield
        sweeper.cancel()
        self._scheduler.stop()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(10)
            self.promises.sweep()
            now = time.monotonic()
            for session_id, seen in list(self._last_seen.items()):
                if now - seen > SESSION_SECONDS:
                    self._end_session(session_id)

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

    def _promise(self, key: tuple[Any, ...] | None, run: Callable[[], Any], **extra: Any) -> web.Response:
        """Queue work and answer with its request id; a repeat of the same request gets the same id."""
        promise = self.promises.find(key)
        if promise is None:
            promise = self.promises.create(key)
            self._scheduler.submit(Job(run, self._report(promise)))
        return web.json_response({"request_id": promise.request_id, **extra})

    def _report(self, promise: Promise) -> Callable[[Any], None]:
        return lambda result: self.promises.resolve(promise, result)

    async def _on_worker(self, run: Callable[[], Any]) -> Any:
        """Run on the worker and wait, for routes that answer directly."""
        promise = self.promises.create()
        self._scheduler.submit(Job(run, self._report(promise)))
        result = await promise.future
        self.promises.fetched(promise)
        if isinstance(result, Exception):
            raise result
        return result

    async def create_session(self, request: web.Request) -> web.Response:
        m.parse(m.CreateSession, await request.read())
        session_id = f"session-{uuid.uuid4().hex}"
        self._last_seen[session_id] = time.monotonic()
        return web.json_response({"type": "create_session", "session_id": session_id})

    async def heartbeat(self, request: web.Request) -> web.Response:
        body = m.parse(m.SessionHeartbeat, await request.read())
        if body.session_id not in self._last_seen:
            raise RequestError(f"session {body.session_id!r} has ended or belongs to an earlier server", status=410)
        self._last_seen[body.session_id] = time.monotonic()
        return web.json_response({"type": "session_heartbeat"})

    async def finish_session(self, request: web.Request) -> web.Response:
        self._end_session(request.match_info["id"])
        return web.json_response({})

    def _end_session(self, session_id: str) -> None:
        self._last_seen.pop(session_id, None)
        self._scheduler.submit(Job(lambda: self.backend.end_session(session_id), lambda _: None))

    def _model_id(self, session_id: str, seq: int) -> str:
        if session_id not in self._last_seen:
            raise RequestError(f"session {session_id!r} is not known; create a new ServiceClient", status=404)
        return f"{session_id}:train:{seq}"

    async def create_model(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateModel, await request.read())
        if body.lora_config is None:
            raise RequestError(
                "create_model needs a lora_config: the local engine trains LoRA adapters, not full models"
            )
        _check_optimizer(body.optimizer_config)
        model_id = self._model_id(body.session_id, body.model_seq_id)
        spec = self.backend.settled(body.lora_config.spec(), body.model_seq_id)

        def run() -> dict[str, Any]:
            self.backend.create_model(model_id, body.base_model, spec, body.user_metadata or {})
            return {"type": "create_model", "model_id": model_id}

        return self._promise(("model", model_id, 0), run, model_id=model_id)

    async def get_info(self, request: web.Request) -> web.Response:
        body = m.parse(m.ModelRef, await request.read())
        model = self.backend.model(body.model_id)
        data = {
            "model_name": model.base.name,
            "tokenizer_id": str(model.base.folder.resolve()),
            "arch": model.base.arch,
        }
        rank = model.adapter.spec.rank
        info = {"type": "get_info", "model_id": body.model_id, "is_lora": True, "lora_rank": rank}
        return web.json_response({**info, "model_name": model.base.name, "model_data": data})

    async def forward_backward(self, request: web.Request) -> web.Response:
        raw = await request.read()
        message = wire.parse_forward_backward(wire.decompress(raw, request.headers.get("Content-Encoding")))
        self.backend.model(message.model_id)
        config = wire.loss_config(message)

        def run() -> bytes:
            data = wire.training_data(message)
            result = self.backend.forward_backward(
                message.model_id, data, message.loss_fn, config, backward=not message.forward_only
            )
            return wire.forward_backward_bytes(result)

        return self._promise(("model", message.model_id, message.seq_id), run, model_id=message.model_id)

    async def optim_step(self, request: web.Request) -> web.Response:
        body = m.parse(m.OptimStep, await request.read())
        self.backend.model(body.model_id)
        if body.adam_params is None:
            given = (body.optimizer_params or {}).get("type", "none")
            raise RequestError(f"optim_step needs adam_params (AdamW); optimizer {given!r} is not available here")
        settings = AdamSettings(**body.adam_params.model_dump())

        def run() -> dict[str, Any]:
            return {"type": "optim_step", "metrics": self.backend.optim_step(body.model_id, settings)}

        return self._promise(_key(body), run, model_id=body.model_id)

    async def save_weights(self, request: web.Request) -> web.Response:
        body = m.parse(m.SaveWeights, await request.read())
        self.backend.model(body.model_id)

        def run() -> dict[str, Any]:
            path = self.backend.save(
                body.model_id,
                "weights",
                body.path,
                overwrite=body.overwrite,
                user_metadata=body.user_metadata,
                expires_at=body.expires_at(),
            )
            return {"type": "save_weights", "path": path}

        return self._promise(_key(body), run, model_id=body.model_id)

    async def save_weights_for_sampler(self, request: web.Request) -> web.Response:
        body = m.parse(m.SaveWeights, await request.read())
        self.backend.model(body.model_id)

        def run() -> dict[str, Any]:
            if body.path is None:
                return {
                    "type": "save_weights_for_sampler",
                    "sampling_session_id": self.backend.sampler_from_model(body.model_id),
                }
            path = self.backend.save(
                body.model_id,
                "sampler_weights",
                body.path,
                overwrite=True,
                user_metadata=body.user_metadata,
                expires_at=body.expires_at(),
            )
            return {"type": "save_weights_for_sampler", "path": path}

        return self._promise(_key(body), run, model_id=body.model_id)

    async def load_weights(self, request: web.Request) -> web.Response:
        body = m.parse(m.LoadWeights, await request.read())
        if body.model_id is not None:
            model_id, key = body.model_id, ("model", body.model_id, body.seq_id)
            self.backend.model(model_id)
        elif body.session_id is not None and body.model_seq_id is not None:
            model_id = self._model_id(body.session_id, body.model_seq_id)
            key = ("model", model_id, 0)
        else:
            raise RequestError("load_weights needs model_id, or session_id and model_seq_id")

        def run() -> dict[str, Any]:
            self.backend.load(
                model_id, body.path, optimizer=body.optimizer, base_model=body.base_model, metadata=body.user_metadata
            )
            return {"type": "load_weights", "path": body.path, "model_id": model_id}

        return self._promise(key, run, model_id=model_id)

    async def create_sampling_session(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateSamplingSession, await request.read())
        if body.model_path is not None:
            path = body.model_path
            session_id = await self._on_worker(lambda: self.backend.sampler_from_path(path))
        elif body.base_model is not None:
            name = body.base_model
            session_id = await self._on_worker(lambda: self.backend.sampler_from_base(name))
        else:
            raise RequestError("create_sampling_session needs model_path or base_model")
        return web.json_response({"type": "create_sampling_session", "sampling_session_id": session_id})

    async def join_sampling_session(self, request: web.Request) -> web.Response:
        body = m.parse(m.JoinSamplingSession, await request.read())
        self.backend.sessions.get(body.sampling_session_id)
        counter = self._joined.get(body.sampling_session_id, 0) + 1
        self._joined[body.sampling_session_id] = counter
        return web.json_response({"type": "join_sampling_session", "client_counter": counter})

    async def sampler(self, request: web.Request) -> web.Response:
        session = self.backend.sessions.get(request.match_info["id"])
        path = str(session.source) if session.source is not None else None
        base = session.base.tokenizer_path
        return web.json_response({"sampler_id": session.session_id, "base_model": base, "model_path": path})

    async def asample(self, request: web.Request) -> web.Response:
        body = m.parse(m.Sample, await request.read())
        session_id = body.sampling_session_id
        if session_id is None:
            raise RequestError("asample needs a sampling_session_id; create_sampling_session gives one")
        session = self.backend.sessions.get(session_id)
        key = ("sample", session_id, body.seq_id) if body.seq_id is not None else None
        promise = self.promises.find(key)
        if promise is None:
            payload = sample_request(body, session.base)
            promise = self.promises.create(key)

            def report(result: Any, promise: Promise = promise) -> None:
                self.promises.resolve(promise, result if isinstance(result, Exception) else wire.sample_bytes(result))

            promise.job = SampleJob(session_id, body.seq_id, payload, report)
            self._scheduler.submit(promise.job)
        ids = [f"{promise.request_id}:{i}" for i in range(body.num_samples)]
        return web.json_response({"request_id": promise.request_id, "sample_sequence_ids": ids})

    async def retrieve_future(self, request: web.Request) -> web.Response:
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
        body = m.parse(m.RetrieveFuture, await request.read())
        promise = self.promises.get(body.request_id)
        if isinstance(promise.job, SampleJob):
            promise.job.cancelled = True
            self.promises.resolve(promise, RequestError("the request was cancelled by the client"))
            self.promises.fetched(promise)
        return web.json_response({})


def _always(answer: dict[str, Any]) -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.json_response(answer)

    return handler


def _key(body: m.ModelRef) -> tuple[Any, ...] | None:
    return ("model", body.model_id, body.seq_id) if body.seq_id is not None else None


def _check_optimizer(config: m.OptimizerConfig) -> None:
    if config.type != "adamw":
        raise RequestError(f"optimizer {config.type!r} is not available on the local engine; use 'adamw'")


def _refusal(message: str, status: int) -> web.Response:
    category = "server" if status >= 500 else "user"
    return web.json_response({"error": message, "detail": message, "category": category}, status=status)


def _failure(error: Exception) -> dict[str, str]:
    if isinstance(error, RequestError):
        return {"error": str(error), "category": error.category}
    logger.error("a request failed", exc_info=error)
    return {"error": f"the engine failed: {type(error).__name__}: {error}", "category": "server"}
