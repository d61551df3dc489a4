"""The routes of checkpoints and training runs, from this life of the server or an earlier one.

Exports are peft adapters for download by signed URL, encrypted where the client wants that.
"""

import hashlib
import hmac
import importlib.util
import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from ..compute.checkpoints import ADAPTER_FILES, EXTERNAL, CheckpointInfo, CheckpointPath, check_name, now
from ..errors import RequestError
from ..protocol import messages as m
from .backend import Backend
from .promises import Promises

URL_SECONDS = 3600
"""How long a signed URL is served."""
FILES = "external_files"
"""Route of the files of exports. Whoever has a signed URL needs no key."""
_AGE = ".age"
_TYPES = {"weights": "training", "sampler_weights": "sampler", EXTERNAL: "external"}


@dataclass
class CheckpointRoutes:
    """Everything is read from disk, except runs that have saved nothing yet.

    The worker thread reads and deletes, as it is the one that writes: no answer sees half of a change.
    """

    backend: Backend
    promises: Promises
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    async def _json(self, run: Callable[[], dict[str, Any]]) -> web.Response:
        return web.json_response(await self.promises.done(run))

    async def capabilities(self, _request: web.Request) -> web.Response:
        """The base models that have a name, and what only this engine says: how it computes."""
        models = [{"model_name": name, "trainable": True, "sampleable": True} for name in self.backend.options.models]
        return web.json_response({"supported_models": models, "engine": self.backend.resolved_options()})

    async def weights_info(self, request: web.Request) -> web.Response:
        path = CheckpointPath.parse(m.parse(m.WeightsInfo, await request.read()).tinker_path)

        def run() -> dict[str, Any]:
            lora = self.backend.store.info(path).lora
            parts = {f"train_{part}": lora.adapts(part) for part in ("attn", "mlp", "unembed")}
            return {"base_model": self.backend.base_name(path), "is_lora": True, "lora_rank": lora.rank, **parts}

        return await self._json(run)

    async def training_run(self, request: web.Request) -> web.Response:
        model_id = request.match_info["id"]
        check_name(model_id.replace(":", "_"), "the training run id")
        return await self._json(lambda: self._run(model_id, self.backend.store.list(model_id)))

    async def training_runs(self, request: web.Request) -> web.Response:
        offset, limit = m.number(request.query, "offset", 0), m.number(request.query, "limit", 20)

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
        offset, limit = m.number(request.query, "offset", 0), m.number(request.query, "limit", None)

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
        return await self._done(self.backend.store.delete, request)

    async def accept_ttl(self, request: web.Request) -> web.Response:
        """Nothing on this machine expires by itself; the request is accepted so that recipes run."""
        return await self._done(self.backend.store.info, request)

    async def _done(self, run: Callable[[CheckpointPath], object], request: web.Request) -> web.Response:
        path = CheckpointPath.parse(f"tinker://{request.match_info['id']}/{request.match_info['checkpoint']}")
        await self.promises.done(lambda: run(path))
        return web.Response(status=204)

    async def urls(self, request: web.Request) -> web.Response:
        """A signed URL for every file of an export."""
        path = _export_path(request)

        def run() -> list[Path]:
            self.backend.store.info(path)
            return export_files(self.backend.store.folder(path))

        expires = int(time.time()) + URL_SECONDS
        root = request.url.origin() / "api/v1" / FILES / path.model_id / path.name
        urls = {
            file.name: str(
                (root / file.name).with_query(expires=expires, signature=self._signature(path, file.name, expires))
            )
            for file in await self.promises.done(run)
        }
        return web.json_response({"urls": urls, "expires": datetime.fromtimestamp(expires, UTC).isoformat()})

    async def file(self, request: web.Request) -> web.StreamResponse:
        path = _export_path(request)
        name, expires = request.match_info["file"], request.query.get("expires", "")
        signature = self._signature(path, name, expires).encode()
        if not hmac.compare_digest(signature, request.query.get("signature", "").encode()):
            raise RequestError("the URL is not one that this engine has signed; ask for new URLs", status=403)
        if int(expires) < time.time():
            raise RequestError(f"the URL has expired after {URL_SECONDS} seconds; ask for new URLs", status=403)
        for file in export_files(self.backend.store.folder(path)):
            if file.name == name:
                return web.FileResponse(file)
        raise RequestError(f"{path} has no file {name!r}: it was deleted meanwhile", status=404)

    def _signature(self, path: CheckpointPath, name: str, expires: int | str) -> str:
        return hmac.new(self._secret, f"{path}/{name}?{expires}".encode(), hashlib.sha256).hexdigest()


def _export_path(request: web.Request) -> CheckpointPath:
    return CheckpointPath.parse(f"tinker://{request.match_info['id']}/{EXTERNAL}/{request.match_info['name']}")


def export_files(folder: Path) -> list[Path]:
    """The files of an export that are for download."""
    names = [name + end for name in ADAPTER_FILES for end in ("", _AGE)]
    return [folder / name for name in names if (folder / name).is_file()]


def encryption(recipients: list[str]) -> Callable[[Path], None]:
    """What encrypts the files of an export to age recipients (filippo.io/age); without any it leaves them alone."""
    if not recipients:
        return lambda _: None
    if importlib.util.find_spec("pyrage") is None:
        raise RequestError("age_encryption_recipients needs pyrage where the engine runs: pip install pyrage")
    import pyrage

    keys: list[Any] = []
    for text in recipients:
        kind = pyrage.ssh if text.startswith("ssh-") else pyrage.x25519  # pyright: ignore[reportAttributeAccessIssue]
        try:
            keys.append(kind.Recipient.from_str(text))
        except pyrage.RecipientError as error:  # pyright: ignore[reportAttributeAccessIssue]
            raise RequestError(
                f"age_encryption_recipients holds {text!r}, which is no age1... or SSH key: {error}"
            ) from error

    def encrypt(folder: Path) -> None:
        for name in ADAPTER_FILES:
            file = folder / name
            (folder / (name + _AGE)).write_bytes(pyrage.encrypt(file.read_bytes(), keys))  # pyright: ignore[reportAttributeAccessIssue]
            file.unlink()

    return encrypt
