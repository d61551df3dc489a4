"""Exports: peft adapters of a model in training, for download by signed URL, encrypted where the client wants that."""

import hashlib
import hmac
import importlib.util
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from ..compute.checkpoints import CONFIG_FILE, EXTERNAL, WEIGHTS_FILE, CheckpointPath
from ..errors import RequestError
from ..protocol import messages as m
from .backend import Backend
from .promises import Promises

URL_SECONDS = 3600
"""How long a signed URL is served."""
FILES = "external_files"
"""Route of the files themselves. Whoever has a signed URL needs no key."""
_AGE = ".age"


@dataclass
class ExternalWeightsRoutes:
    """Exports are written by the worker, like all checkpoints, and read by their URLs."""

    backend: Backend
    promises: Promises
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    async def save_weights_external(self, request: web.Request) -> web.Response:
        """The present weights of a model as a peft adapter for download."""
        body = m.parse(m.SaveWeightsExternal, await request.read())
        self.backend.model(body.model_id)
        finish = encryption(body.age_encryption_recipients or [])

        def run() -> dict[str, Any]:
            path = self.backend.save(
                body.model_id,
                EXTERNAL,
                body.path,
                expires_at=body.expires_at(),
                overwrite=body.overwrite,
                finish=finish,
            )
            size = sum(file.stat().st_size for file in self._files(CheckpointPath.parse(path)))
            return {"type": "save_weights_external", "path": path, "size_bytes": size}

        key = None if body.seq_id is None else ("model", body.model_id, body.seq_id)
        return self.promises.promised(key, run, model_id=body.model_id)

    def _files(self, path: CheckpointPath) -> list[Path]:
        folder = self.backend.store.folder(path)
        names = [name + end for name in (CONFIG_FILE, WEIGHTS_FILE) for end in ("", _AGE)]
        return [folder / name for name in names if (folder / name).is_file()]

    async def urls(self, request: web.Request) -> web.Response:
        """A signed URL for every file of an export."""
        path = CheckpointPath(request.match_info["id"], EXTERNAL, request.match_info["name"])
        path = CheckpointPath.parse(str(path))

        def run() -> list[Path]:
            self.backend.store.info(path)
            return self._files(path)

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
        """A file of an export."""
        path = CheckpointPath.parse(f"tinker://{request.match_info['id']}/{EXTERNAL}/{request.match_info['name']}")
        name, expires = request.match_info["file"], request.query.get("expires", "")
        signature = self._signature(path, name, expires).encode()
        if not hmac.compare_digest(signature, request.query.get("signature", "").encode()):
            raise RequestError("the URL is not one that this engine has signed; ask for new URLs", status=403)
        if int(expires) < time.time():
            raise RequestError(f"the URL has expired after {URL_SECONDS} seconds; ask for new URLs", status=403)
        for file in self._files(path):
            if file.name == name:
                return web.FileResponse(file)
        raise RequestError(f"{path} has no file {name!r}: it was deleted meanwhile", status=404)

    def _signature(self, path: CheckpointPath, name: str, expires: int | str) -> str:
        return hmac.new(self._secret, f"{path}/{name}?{expires}".encode(), hashlib.sha256).hexdigest()


def encryption(recipients: list[str]) -> Callable[[Path], None]:
    """What encrypts the files of an export to these age recipients (filippo.io/age); without any it leaves them alone.

    Raises
    ------
    RequestError
        If one is not a key, or the package that encrypts is not installed.
    """
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
        for name in (CONFIG_FILE, WEIGHTS_FILE):
            file = folder / name
            (folder / (name + _AGE)).write_bytes(pyrage.encrypt(file.read_bytes(), keys))  # pyright: ignore[reportAttributeAccessIssue]
            file.unlink()

    return encrypt
