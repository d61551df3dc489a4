"""The routes of training and of sampling. Everything that computes is done by the worker, in the order it came."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from ..compute.checkpoints import EXTERNAL, CheckpointPath
from ..compute.training import all_or_nothing
from ..errors import RequestError
from ..protocol import messages as m
from ..protocol import wire
from .backend import Backend
from .checkpoint_routes import encryption, export_files
from .client_sessions import ClientSessions
from .promises import Promise, Promises
from .sampling_sessions import SamplingSession
from .scheduler import SampleJob, sampling_client


@dataclass
class Routes:
    """Models, passes, steps and their weights, which are promised; sampling sessions (frozen weights), and samples."""

    backend: Backend
    promises: Promises
    clients: ClientSessions

    async def create_model(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateModel, await request.read())
        if body.lora_config is None:
            raise RequestError(
                "create_model needs a lora_config: the local engine trains LoRA adapters, not full models"
            )
        if body.optimizer_config.type != "adamw":
            raise RequestError(
                f"optimizer {body.optimizer_config.type!r} is not available on the local engine; use 'adamw'"
            )
        seed = self.clients.seed(body.session_id)
        model_id = f"{body.session_id}:train:{body.model_seq_id}"
        spec = self.backend.resolved(body.lora_config, body.model_seq_id, seed)

        def run() -> dict[str, Any]:
            self.backend.create_model(model_id, body.base_model, spec, body.user_metadata or {}, seed=seed)
            return {"type": "create_model", "model_id": model_id}

        return self._promised(model_id, 0, run)

    def _promised(self, model_id: str, seq_id: int | None, run: Callable[[], Any]) -> web.Response:
        key = None if seq_id is None else ("model", model_id, seq_id)
        return self.promises.promised(key, run, model_id=model_id)

    async def get_info(self, request: web.Request) -> web.Response:
        model = self.backend.model(m.parse(m.ModelRef, await request.read()).model_id)
        name, tokenizer = model.base.name, str(model.base.folder.resolve())
        return web.json_response(
            {
                "type": "get_info",
                "model_id": model.model_id,
                "is_lora": True,
                "lora_rank": model.adapter.spec.rank,
                "model_name": name,
                "model_data": {"model_name": name, "tokenizer_id": tokenizer, "arch": model.base.arch},
            }
        )

    async def forward_backward(self, request: web.Request) -> web.Response:
        """A forward pass, with or without a backward pass."""
        message = wire.parse_forward_backward(await request.read(), request.headers.get("Content-Encoding"))
        self.backend.model(message.model_id)
        config = wire.loss_config(message)

        def run() -> bytes:
            model, data = self.backend.model(message.model_id), wire.training_data(message)
            # A reply that cannot be encoded is a pass that has failed: it adds no gradient either.
            with all_or_nothing(model.adapter):
                result = model.forward_backward(data, message.loss_fn, config, backward=not message.forward_only)
                return wire.forward_backward_bytes(result)

        return self._promised(message.model_id, message.seq_id, run)

    async def optim_step(self, request: web.Request) -> web.Response:
        body = m.parse(m.OptimStep, await request.read())
        self.backend.model(body.model_id)
        settings = body.adam_params
        if settings is None:
            given = (body.optimizer_params or {}).get("type", "none")
            raise RequestError(f"optim_step needs adam_params (AdamW); optimizer {given!r} is not available here")

        def run() -> dict[str, Any]:
            return {"type": "optim_step", "metrics": self.backend.model(body.model_id).optim_step(settings)}

        return self._promised(body.model_id, body.seq_id, run)

    async def save_weights(self, request: web.Request) -> web.Response:
        body = m.parse(m.SaveWeights, await request.read())
        return self._saved(body, "save_weights", lambda: self._save(body, "weights", overwrite=body.overwrite))

    async def save_weights_for_sampler(self, request: web.Request) -> web.Response:
        """A sampler checkpoint, or, without a name, a sampling session on the present weights."""
        body = m.parse(m.SaveWeights, await request.read())

        def run() -> dict[str, Any]:
            if body.path is None:
                return {"sampling_session_id": self.backend.sampler_from_model(body.model_id)}
            return self._save(body, "sampler_weights", overwrite=True)

        return self._saved(body, "save_weights_for_sampler", run)

    async def save_weights_external(self, request: web.Request) -> web.Response:
        """The present weights of a model as a peft adapter for download."""
        body = m.parse(m.SaveWeightsExternal, await request.read())
        self.backend.model(body.model_id)
        finish = encryption(body.age_encryption_recipients or [])

        def run() -> dict[str, Any]:
            saved = self._save(body, EXTERNAL, overwrite=body.overwrite, finish=finish)
            files = export_files(self.backend.store.folder(CheckpointPath.parse(saved["path"])))
            return {**saved, "size_bytes": sum(file.stat().st_size for file in files)}

        return self._saved(body, "save_weights_external", run)

    def _saved(self, body: m.SaveWeights, kind: str, run: Callable[[], dict[str, Any]]) -> web.Response:
        self.backend.model(body.model_id)
        return self._promised(body.model_id, body.seq_id, lambda: {"type": kind, **run()})

    def _save(self, body: m.SaveWeights, kind: str, *, overwrite: bool, **more: Any) -> dict[str, str]:
        about = {"user_metadata": body.user_metadata, "expires_at": m.expiry(body.ttl_seconds)}
        return {"path": self.backend.save(body.model_id, kind, body.path, overwrite=overwrite, **about, **more)}

    async def load_weights(self, request: web.Request) -> web.Response:
        """A checkpoint into a model that there is, or into a new one."""
        body = m.parse(m.LoadWeights, await request.read())
        if body.model_id is not None:
            model_id, number = body.model_id, body.seq_id
            seed = self.backend.model(model_id).seed
        elif body.session_id is not None and body.model_seq_id is not None:
            model_id, number = f"{body.session_id}:train:{body.model_seq_id}", 0
            seed = self.clients.seed(body.session_id)
        else:
            raise RequestError("load_weights needs model_id, or session_id and model_seq_id")

        def run() -> dict[str, Any]:
            self.backend.load(
                model_id,
                body.path,
                with_optimizer=body.optimizer,
                base_model=body.base_model,
                metadata=body.user_metadata,
                seed=seed,
            )
            return {"type": "load_weights", "path": body.path, "model_id": model_id}

        return self._promised(model_id, number, run)

    async def create_sampling_session(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateSamplingSession, await request.read())
        seed = self.clients.seed(body.session_id)
        if body.model_path is not None:
            opener, source = self.backend.sampler_from_path, body.model_path
        elif body.base_model is not None:
            opener, source = self.backend.sampler_from_base, body.base_model
        else:
            raise RequestError("create_sampling_session needs model_path or base_model")
        session_id = await self.promises.done(lambda: opener(source, body.session_id, seed))
        return web.json_response({"type": "create_sampling_session", "sampling_session_id": session_id})

    async def join_sampling_session(self, request: web.Request) -> web.Response:
        """Count a client in another process that samples from a session."""
        body = m.parse(m.JoinSamplingSession, await request.read())
        session = self.backend.sessions.get(body.sampling_session_id)
        session.joined += 1
        return web.json_response({"type": "join_sampling_session", "client_counter": session.joined})

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
        promise = self.promises.find(key) or self._sample(key, session, body)
        ids = [f"{promise.request_id}:{i}" for i in range(body.num_samples)]
        return web.json_response({"request_id": promise.request_id, "sample_sequence_ids": ids})

    def _sample(self, key: tuple[Any, ...] | None, session: SamplingSession, body: m.Sample) -> Promise:
        payload = body.for_model(session.base)
        promise = self.promises.create(
            key, None if body.seq_id is None else sampling_client(session.session_id, body.seq_id)
        )

        def answered(_: object) -> None:
            session.waiting -= 1

        def report(result: Any) -> None:
            promise.resolve(result if isinstance(result, Exception) else wire.sample_bytes(result))

        session.waiting += 1
        promise.future.add_done_callback(answered)
        self.promises.sample(promise, SampleJob(session.session_id, body.seq_id, payload, report))
        return promise
