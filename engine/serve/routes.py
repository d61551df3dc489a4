"""The routes of the protocol: models and their training, sampling, and what is in the checkpoint folder."""

from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from ..compute.checkpoints import CheckpointInfo, CheckpointPath, check_name, now
from ..compute.optimizer import AdamSettings
from ..compute.training import all_or_nothing
from ..errors import RequestError
from ..protocol import messages as m
from ..protocol import wire
from ..protocol.requests import sample_request
from .backend import Backend
from .client_sessions import ClientSessions
from .promises import Promises
from .scheduler import SampleJob

Default = TypeVar("Default", int, None)


class TrainingRoutes:
    """Models, passes, steps, and their weights. All but `get_info` is promised: it is done in the order in which it
    came.
    """

    def __init__(self, backend: Backend, promises: Promises, clients: ClientSessions) -> None:
        self.backend, self.promises, self.clients = backend, promises, clients

    def add_to(self, app: web.Application, api: str) -> None:
        """Register the routes under `api`."""
        for route in (
            self.create_model,
            self.get_info,
            self.forward_backward,
            self.optim_step,
            self.save_weights,
            self.save_weights_for_sampler,
            self.load_weights,
        ):
            app.router.add_post(f"{api}/{route.__name__}", route)

    async def create_model(self, request: web.Request) -> web.Response:
        """A new adapter."""
        body = m.parse(m.CreateModel, await request.read())
        if body.lora_config is None:
            raise RequestError(
                "create_model needs a lora_config: the local engine trains LoRA adapters, not full models"
            )
        if body.optimizer_config.type != "adamw":
            raise RequestError(
                f"optimizer {body.optimizer_config.type!r} is not available on the local engine; use 'adamw'"
            )
        seed = self.clients.get(body.session_id).seed
        model_id = _model_id(body.session_id, body.model_seq_id)
        spec = self.backend.resolved(body.lora_config.spec(), body.model_seq_id, seed)

        def run() -> dict[str, Any]:
            self.backend.create_model(model_id, body.base_model, spec, body.user_metadata or {}, seed=seed)
            return {"type": "create_model", "model_id": model_id}

        return self.promises.promised(("model", model_id, 0), run, model_id=model_id)

    async def get_info(self, request: web.Request) -> web.Response:
        """The base model and the rank of an adapter."""
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
        """A forward pass, with or without a backward pass."""
        raw = await request.read()
        message = wire.parse_forward_backward(wire.decompress(raw, request.headers.get("Content-Encoding")))
        self.backend.model(message.model_id)
        config = wire.loss_config(message)

        def run() -> bytes:
            data = wire.training_data(message)
            # A reply that cannot be encoded is a pass that has failed: it adds no gradient either.
            with all_or_nothing(self.backend.model(message.model_id).adapter):
                result = self.backend.forward_backward(
                    message.model_id, data, message.loss_fn, config, backward=not message.forward_only
                )
                return wire.forward_backward_bytes(result)

        return self.promises.promised(("model", message.model_id, message.seq_id), run, model_id=message.model_id)

    async def optim_step(self, request: web.Request) -> web.Response:
        """A step of AdamW."""
        body = m.parse(m.OptimStep, await request.read())
        self.backend.model(body.model_id)
        if body.adam_params is None:
            given = (body.optimizer_params or {}).get("type", "none")
            raise RequestError(f"optim_step needs adam_params (AdamW); optimizer {given!r} is not available here")
        settings = AdamSettings(**body.adam_params.model_dump())

        def run() -> dict[str, Any]:
            return {"type": "optim_step", "metrics": self.backend.optim_step(body.model_id, settings)}

        return self.promises.promised(_key(body), run, model_id=body.model_id)

    async def save_weights(self, request: web.Request) -> web.Response:
        """A training checkpoint."""
        body = m.parse(m.SaveWeights, await request.read())
        self.backend.model(body.model_id)

        def run() -> dict[str, Any]:
            return {"type": "save_weights", "path": self._save(body, "weights", overwrite=body.overwrite)}

        return self.promises.promised(_key(body), run, model_id=body.model_id)

    async def save_weights_for_sampler(self, request: web.Request) -> web.Response:
        """A sampler checkpoint, or, without a name, a sampling session on the present weights."""
        body = m.parse(m.SaveWeights, await request.read())
        self.backend.model(body.model_id)

        def run() -> dict[str, Any]:
            answer = {"type": "save_weights_for_sampler"}
            if body.path is None:
                return {**answer, "sampling_session_id": self.backend.sampler_from_model(body.model_id)}
            return {**answer, "path": self._save(body, "sampler_weights", overwrite=True)}

        return self.promises.promised(_key(body), run, model_id=body.model_id)

    def _save(self, body: m.SaveWeights, kind: str, *, overwrite: bool) -> str:
        return self.backend.save(
            body.model_id,
            kind,
            body.path,
            overwrite=overwrite,
            user_metadata=body.user_metadata,
            expires_at=body.expires_at(),
        )

    async def load_weights(self, request: web.Request) -> web.Response:
        """A checkpoint into a model that there is, or into a new one."""
        body = m.parse(m.LoadWeights, await request.read())
        if body.model_id is not None:
            model_id, key = body.model_id, ("model", body.model_id, body.seq_id)
            seed = self.backend.model(model_id).seed
        elif body.session_id is not None and body.model_seq_id is not None:
            seed = self.clients.get(body.session_id).seed
            model_id = _model_id(body.session_id, body.model_seq_id)
            key = ("model", model_id, 0)
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

        return self.promises.promised(key, run, model_id=model_id)


def _model_id(session_id: str, number: int) -> str:
    return f"{session_id}:train:{number}"


def _key(body: m.ModelRef) -> tuple[Any, ...] | None:
    return ("model", body.model_id, body.seq_id) if body.seq_id is not None else None


class SamplingRoutes:
    """Sampling sessions, which are frozen weights, and samples from them."""

    def __init__(self, backend: Backend, promises: Promises, clients: ClientSessions) -> None:
        self.backend, self.promises, self.clients = backend, promises, clients

    def add_to(self, app: web.Application, api: str) -> None:
        """Register the routes under `api`."""
        for route in (self.create_sampling_session, self.join_sampling_session, self.asample):
            app.router.add_post(f"{api}/{route.__name__}", route)
        app.router.add_get(f"{api}/samplers/{{id}}", self.sampler)

    async def create_sampling_session(self, request: web.Request) -> web.Response:
        """A session on a checkpoint or on a base model."""
        body = m.parse(m.CreateSamplingSession, await request.read())
        owner, seed = body.session_id, self.clients.get(body.session_id).seed
        if body.model_path is not None:
            path = body.model_path
            session_id = await self.promises.done(lambda: self.backend.sampler_from_path(path, owner, seed))
        elif body.base_model is not None:
            name = body.base_model
            session_id = await self.promises.done(lambda: self.backend.sampler_from_base(name, owner, seed))
        else:
            raise RequestError("create_sampling_session needs model_path or base_model")
        return web.json_response({"type": "create_sampling_session", "sampling_session_id": session_id})

    async def join_sampling_session(self, request: web.Request) -> web.Response:
        """Count a client in another process that samples from a session."""
        body = m.parse(m.JoinSamplingSession, await request.read())
        session = self.backend.sessions.get(body.sampling_session_id)
        session.joined += 1
        return web.json_response({"type": "join_sampling_session", "client_counter": session.joined})

    async def sampler(self, request: web.Request) -> web.Response:
        """The weights of a session."""
        session = self.backend.sessions.get(request.match_info["id"])
        path = str(session.source) if session.source is not None else None
        base = session.base.tokenizer_path
        return web.json_response({"sampler_id": session.session_id, "base_model": base, "model_path": path})

    async def asample(self, request: web.Request) -> web.Response:
        """Samples of one prompt."""
        body = m.parse(m.Sample, await request.read())
        session_id = body.sampling_session_id
        if session_id is None:
            raise RequestError("asample needs a sampling_session_id; create_sampling_session gives one")
        session = self.backend.sessions.get(session_id)
        key = ("sample", session_id, body.seq_id) if body.seq_id is not None else None
        promise = self.promises.find(key)
        if promise is None:
            payload = sample_request(body, session.base)
            promise = new = self.promises.create(key)
            session.waiting += 1
            new.future.add_done_callback(lambda _: session.answered())

            def report(result: Any) -> None:
                self.promises.resolve(new, result if isinstance(result, Exception) else wire.sample_bytes(result))

            self.promises.sample(new, SampleJob(session_id, body.seq_id, payload, report))
        ids = [f"{promise.request_id}:{i}" for i in range(body.num_samples)]
        return web.json_response({"request_id": promise.request_id, "sample_sequence_ids": ids})


class RestRoutes:
    """Checkpoints and training runs, from this life of the server or an earlier one. Everything is read from disk,
    except runs that have saved nothing yet.

    The worker thread reads and deletes, as it is the one that writes: no answer sees half of a change.
    """

    def __init__(self, backend: Backend, promises: Promises) -> None:
        self.backend, self.promises = backend, promises

    def add_to(self, app: web.Application, api: str) -> None:
        """Register the routes under `api`."""
        get = app.router.add_get
        get(f"{api}/get_server_capabilities", self.capabilities)
        app.router.add_post(f"{api}/weights_info", self.weights_info)
        get(f"{api}/training_runs", self.training_runs)
        get(f"{api}/training_runs/{{id}}", self.training_run)
        get(f"{api}/training_runs/{{id}}/checkpoints", self.checkpoints)
        get(f"{api}/checkpoints", self.checkpoints)
        app.router.add_delete(f"{api}/training_runs/{{id}}/checkpoints/{{checkpoint:.+}}", self.delete_checkpoint)
        app.router.add_put(f"{api}/training_runs/{{id}}/checkpoints/{{checkpoint:.+}}/ttl", self.accept_ttl)

    async def capabilities(self, _request: web.Request) -> web.Response:
        """The base models that have a name."""
        models = [{"model_name": name, "trainable": True, "sampleable": True} for name in self.backend.options.models]
        return web.json_response({"supported_models": models})

    async def _json(self, run: Callable[[], dict[str, Any]]) -> web.Response:
        return web.json_response(await self.promises.done(run))

    async def weights_info(self, request: web.Request) -> web.Response:
        """The base model and the adapter of a checkpoint."""
        path = CheckpointPath.parse(m.parse(m.WeightsInfo, await request.read()).tinker_path)

        def run() -> dict[str, Any]:
            lora = self.backend.store.info(path).lora
            parts = {f"train_{part}": lora.adapts(part) for part in ("attn", "mlp", "unembed")}
            return {"base_model": self.backend.base_name(path), "is_lora": True, "lora_rank": lora.rank, **parts}

        return await self._json(run)

    async def training_run(self, request: web.Request) -> web.Response:
        """One training run."""
        model_id = request.match_info["id"]
        check_name(model_id.replace(":", "_"), "the training run id")
        return await self._json(lambda: self._run(model_id, self.backend.store.list(model_id)))

    async def training_runs(self, request: web.Request) -> web.Response:
        """A page of all training runs."""
        offset, limit = _number(request, "offset", 0), _number(request, "limit", 20)

        def run() -> dict[str, Any]:
            saved: dict[str, list[CheckpointInfo]] = {model_id: [] for model_id in self.backend.models}
            for info in self.backend.store.list():
                saved.setdefault(CheckpointPath.parse(info.path).model_id, []).append(info)
            page = list(saved.items())[offset : offset + limit]
            cursor = {"offset": offset, "limit": limit, "total_count": len(saved)}
            return {"training_runs": [self._run(*item) for item in page], "cursor": cursor}

        return await self._json(run)

    def _run(self, model_id: str, saved: list[CheckpointInfo]) -> dict[str, Any]:
        model = self.backend.models.get(model_id)
        if model is not None:
            base, rank, metadata = model.base.name, model.adapter.spec.rank, model.metadata
        elif saved:
            base, rank, metadata = saved[-1].base_model, saved[-1].lora.rank, saved[-1].run_metadata
        else:
            raise RequestError(f"there is no training run {model_id!r}", status=404)
        run: dict[str, Any] = {
            "training_run_id": model_id,
            "base_model": base,
            "model_owner": "local",
            "is_lora": True,
            "lora_rank": rank,
            "last_request_time": saved[-1].time if saved else now(),
            "user_metadata": {key: str(value) for key, value in metadata.items()},
        }
        for field, kind in (("last_checkpoint", "weights"), ("last_sampler_checkpoint", "sampler_weights")):
            of_kind = [info for info in saved if CheckpointPath.parse(info.path).kind == kind]
            if of_kind:
                run[field] = self._checkpoint(of_kind[-1])
        return run

    def _checkpoint(self, info: CheckpointInfo) -> dict[str, Any]:
        path = CheckpointPath.parse(info.path)
        return {
            "checkpoint_id": f"{path.kind}/{path.name}",
            "checkpoint_type": "training" if path.kind == "weights" else "sampler",
            "time": info.time,
            "tinker_path": info.path,
            "size_bytes": self.backend.store.size(path),
            "user_metadata": info.user_metadata,
            "expires_at": info.expires_at,
        }

    async def checkpoints(self, request: web.Request) -> web.Response:
        """A page of the checkpoints of a run, or of all."""
        offset, limit = _number(request, "offset", 0), _number(request, "limit", None)

        def run() -> dict[str, Any]:
            saved = [self._checkpoint(info) for info in self.backend.store.list(request.match_info.get("id"))]
            most = len(saved) if limit is None else limit
            cursor = {"offset": offset, "limit": most, "total_count": len(saved)}
            return {"checkpoints": saved[offset : offset + most], "cursor": cursor}

        return await self._json(run)

    async def delete_checkpoint(self, request: web.Request) -> web.Response:
        """Delete a checkpoint."""
        path = _checkpoint_path(request)
        await self.promises.done(lambda: self.backend.store.delete(path))
        return web.Response(status=204)

    async def accept_ttl(self, request: web.Request) -> web.Response:
        """Nothing on this machine expires by itself; the request is accepted so that recipes run."""
        path = _checkpoint_path(request)
        await self.promises.done(lambda: self.backend.store.info(path))
        return web.Response(status=204)


def _checkpoint_path(request: web.Request) -> CheckpointPath:
    return CheckpointPath.parse(f"tinker://{request.match_info['id']}/{request.match_info['checkpoint']}")


def _number(request: web.Request, name: str, default: Default) -> int | Default:
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdigit():
        raise RequestError(f"query parameter {name!r} must be a whole number of at least 0, got {text!r}")
    return int(text)
