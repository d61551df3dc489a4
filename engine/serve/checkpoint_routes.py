"""The routes of checkpoints and training runs, from this life of the server or an earlier one."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from ..compute.checkpoints import EXTERNAL, CheckpointInfo, CheckpointPath, check_name, now
from ..errors import RequestError
from ..protocol import messages as m
from .backend import Backend
from .pages import number
from .promises import Promises

_TYPES = {"weights": "training", "sampler_weights": "sampler", EXTERNAL: "external"}


@dataclass
class CheckpointRoutes:
    """Everything is read from disk, except runs that have saved nothing yet.

    The worker thread reads and deletes, as it is the one that writes: no answer sees half of a change.
    """

    backend: Backend
    promises: Promises

    async def _json(self, run: Callable[[], dict[str, Any]]) -> web.Response:
        return web.json_response(await self.promises.done(run))

    async def capabilities(self, _request: web.Request) -> web.Response:
        """The base models that have a name, and what only this engine says: how it computes."""
        models = [{"model_name": name, "trainable": True, "sampleable": True} for name in self.backend.options.models]
        return web.json_response({"supported_models": models, "engine": self.backend.resolved_options()})

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
        offset, limit = number(request, "offset", 0), number(request, "limit", 20)

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
        last = {CheckpointPath.parse(info.path).kind: info for info in saved}
        fields = {"weights": "last_checkpoint", "sampler_weights": "last_sampler_checkpoint"}
        return {
            "training_run_id": model_id,
            "base_model": base,
            "model_owner": "local",
            "is_lora": True,
            "lora_rank": rank,
            "last_request_time": saved[-1].time if saved else now(),
            "user_metadata": {key: str(value) for key, value in metadata.items()},
            **{fields[kind]: self._checkpoint(info) for kind, info in last.items() if kind in fields},
        }

    def _checkpoint(self, info: CheckpointInfo) -> dict[str, Any]:
        path = CheckpointPath.parse(info.path)
        return {
            "checkpoint_id": f"{path.kind}/{path.name}",
            "checkpoint_type": _TYPES[path.kind],
            "time": info.time,
            "tinker_path": info.path,
            "size_bytes": self.backend.store.size(path),
            "user_metadata": info.user_metadata,
            "expires_at": info.expires_at,
        }

    async def checkpoints(self, request: web.Request) -> web.Response:
        """A page of the checkpoints of a run, or of all."""
        offset, limit = number(request, "offset", 0), number(request, "limit", None)

        def run() -> dict[str, Any]:
            saved = [self._checkpoint(info) for info in self.backend.store.list(request.match_info.get("id"))]
            most = len(saved) if limit is None else limit
            cursor = {"offset": offset, "limit": most, "total_count": len(saved)}
            return {"checkpoints": saved[offset : offset + most], "cursor": cursor}

        return await self._json(run)

    async def copy_weights(self, request: web.Request) -> web.Response:
        """A second path for a checkpoint, in a session or in a run of its own, where it outlives the first."""
        body = m.parse(m.CopyWeights, await request.read())
        source = CheckpointPath.parse(body.source_path)
        if source.kind == EXTERNAL:
            raise RequestError(f"{source} is an export for download; copy the weights that it was made of")
        if (body.session_id is None) != (body.model_seq_id is None):
            raise RequestError("copy_weights needs both session_id and model_seq_id, or neither")
        session_id = body.session_id or f"session-{uuid.uuid4().hex}"
        target = replace(source, model_id=f"{session_id}:train:{body.model_seq_id or 0}")
        check_name(target.model_id.replace(":", "_"), "the model id of the copy")

        def run() -> dict[str, str]:
            self.backend.store.copy(source, target, m.expiry(body.ttl_seconds))
            return {"tinker_path": str(target)}

        repeat = request.headers.get("X-Idempotency-Key")
        return web.json_response(await self.promises.done(run, None if repeat is None else ("copy", repeat)))

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
