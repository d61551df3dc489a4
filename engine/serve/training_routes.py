"""The training part of the protocol: models, passes, steps, and their weights."""

from typing import Any

from aiohttp import web

from ..compute.training import AdamSettings
from ..errors import RequestError
from ..protocol import messages as m
from ..protocol import wire
from .backend import Backend
from .client_sessions import ClientSessions
from .work import Work


class TrainingRoutes:
    """Everything here is promised: it is done in the order in which it came."""

    def __init__(self, backend: Backend, work: Work, sessions: ClientSessions) -> None:
        self.backend, self.work, self.sessions = backend, work, sessions

    def add_to(self, app: web.Application, api: str) -> None:
        post = app.router.add_post
        post(f"{api}/create_model", self.create_model)
        post(f"{api}/get_info", self.get_info)
        post(f"{api}/forward_backward", self.forward_backward)
        post(f"{api}/optim_step", self.optim_step)
        post(f"{api}/save_weights", self.save_weights)
        post(f"{api}/save_weights_for_sampler", self.save_weights_for_sampler)
        post(f"{api}/load_weights", self.load_weights)

    async def create_model(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateModel, await request.read())
        if body.lora_config is None:
            raise RequestError(
                "create_model needs a lora_config: the local engine trains LoRA adapters, not full models"
            )
        _check_optimizer(body.optimizer_config)
        seed = self.sessions.get(body.session_id).seed
        model_id = _model_id(body.session_id, body.model_seq_id)
        spec = self.backend.resolved(body.lora_config.spec(), body.model_seq_id, seed)

        def run() -> dict[str, Any]:
            self.backend.create_model(model_id, body.base_model, spec, body.user_metadata or {}, seed=seed)
            return {"type": "create_model", "model_id": model_id}

        return self.work.promised(("model", model_id, 0), run, model_id=model_id)

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

        return self.work.promised(("model", message.model_id, message.seq_id), run, model_id=message.model_id)

    async def optim_step(self, request: web.Request) -> web.Response:
        body = m.parse(m.OptimStep, await request.read())
        self.backend.model(body.model_id)
        if body.adam_params is None:
            given = (body.optimizer_params or {}).get("type", "none")
            raise RequestError(f"optim_step needs adam_params (AdamW); optimizer {given!r} is not available here")
        settings = AdamSettings(**body.adam_params.model_dump())

        def run() -> dict[str, Any]:
            return {"type": "optim_step", "metrics": self.backend.optim_step(body.model_id, settings)}

        return self.work.promised(_key(body), run, model_id=body.model_id)

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

        return self.work.promised(_key(body), run, model_id=body.model_id)

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

        return self.work.promised(_key(body), run, model_id=body.model_id)

    async def load_weights(self, request: web.Request) -> web.Response:
        body = m.parse(m.LoadWeights, await request.read())
        if body.model_id is not None:
            model_id, key = body.model_id, ("model", body.model_id, body.seq_id)
            seed = self.backend.model(model_id).seed
        elif body.session_id is not None and body.model_seq_id is not None:
            seed = self.sessions.get(body.session_id).seed
            model_id = _model_id(body.session_id, body.model_seq_id)
            key = ("model", model_id, 0)
        else:
            raise RequestError("load_weights needs model_id, or session_id and model_seq_id")

        def run() -> dict[str, Any]:
            self.backend.load(
                model_id,
                body.path,
                optimizer=body.optimizer,
                base_model=body.base_model,
                metadata=body.user_metadata,
                seed=seed,
            )
            return {"type": "load_weights", "path": body.path, "model_id": model_id}

        return self.work.promised(key, run, model_id=model_id)


def _model_id(session_id: str, number: int) -> str:
    return f"{session_id}:train:{number}"


def _key(body: m.ModelRef) -> tuple[Any, ...] | None:
    return ("model", body.model_id, body.seq_id) if body.seq_id is not None else None


def _check_optimizer(config: m.OptimizerConfig) -> None:
    if config.type != "adamw":
        raise RequestError(f"optimizer {config.type!r} is not available on the local engine; use 'adamw'")
