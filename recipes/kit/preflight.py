"""Before a run begins: is the engine there, does it take the key, does it have the model? In one line if not."""

from __future__ import annotations

import json
import os
import traceback
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tinker

from .compat import service_url
from .engines import EngineTrouble

TIMEOUT = 20.0
"""Seconds that a service may take to say what it has."""
LOADING = 1800.0
"""Seconds that the local engine may take to load, or to fetch, a base model."""
KEY = "TINKER_API_KEY"


def preflight(model: str) -> dict[str, Any]:
    """Ask the service that the environment names whether it can begin with a model.

    An engine of this package loads the model, so that what is wrong with it shows at once. Returned are ``kind``
    (hosted, local or url), ``url`` unless it is local, and what an engine of this package says about itself:
    ``device``, ``dtype``, ``threads``, ``adapter`` and ``quantize``.

    Raises `EngineTrouble` if the service cannot be reached, refuses the key, is no Tinker service, or does not have the
    model.
    """
    service = _Service(service_url())
    capabilities = service.ask("GET", "get_server_capabilities")
    if service.is_hosted:
        names = [str(entry.get("model_name")) for entry in capabilities.get("supported_models", [])]
        if names and model.partition(":")[0] not in {name.partition(":")[0] for name in names}:
            raise EngineTrouble(f"{service.name} has no model {model!r}; it has {', '.join(sorted(names))}")
        return {"kind": "hosted", "url": service.url}
    if "engine" not in capabilities:
        return {"kind": "url", "url": service.url}
    session = service.ask("POST", "create_session", {"tags": []})["session_id"]
    service.ask("POST", "create_sampling_session", {"session_id": session, "base_model": model}, LOADING)
    about = service.ask("GET", "get_server_capabilities")["engine"]
    service.ask("POST", f"sessions/{session}/finish", {})
    loaded = about.pop("models")
    of_model = loaded.get(model) or loaded.get(os.path.realpath(model), {})
    place = {"kind": "local"} if service.is_here else {"kind": "url", "url": service.url}
    return {**place, **about, **of_model}


class _Service:
    """A service by its address, and requests that end in an `EngineTrouble` where they fail."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_hosted = "TINKER_BASE_URL" not in os.environ
        self.is_here = urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
        self.name = f"the hosted service {url}" if self.is_hosted else f"engine {url}"

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = TIMEOUT
    ) -> dict[str, Any]:
        """The JSON of a route's answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-API-Key": os.environ.get(KEY, ""), "Content-Type": "application/json", "User-Agent": "scisci-gym"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=seconds) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            message = _message(error.read())
            if error.code == 401:
                raise EngineTrouble(f"{self.name} refuses the key in {KEY} ({message}); set the right one") from error
            if self.is_hosted:
                return {}  # Whatever stands between may refuse this client and let the SDK pass.
            raise EngineTrouble(f"{self.name} answers {path} with HTTP {error.code}: {message}") from error
        except ValueError as error:
            raise EngineTrouble(f"{self.name} answers {path} with something else than JSON; check --engine") from error
        except OSError as error:
            remedy = "check the URL, and whether its server runs"
            if self.is_hosted:
                remedy = "check the network, or train on this machine: --engine local, and the folder of a model"
            reason = getattr(error, "reason", error)
            raise EngineTrouble(f"{self.name} cannot be reached ({reason}); {remedy}") from error


def _message(body: bytes) -> str:
    """What an error's body says, in one line: the field of the SDK's error form, or the beginning of the text."""
    text = body.decode(errors="replace")
    try:
        fields = dict(json.loads(text))
    except (ValueError, TypeError):
        fields = {}
    return one_line(next((str(fields[name]) for name in ("error", "detail", "message") if fields.get(name)), text))


def one_line(text: str, limit: int = 600) -> str:
    """The first line of a text that is not empty, at most so many characters."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")[:limit]


@contextmanager
def troubles_in_one_line(folder: str | Path) -> Iterator[None]:
    """Let a failure of the engine end the block as an `EngineTrouble`; its traceback goes to `folder`/error.log."""
    try:
        yield
    except tinker.TinkerError as error:
        log = Path(folder) / "error.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            traceback.print_exc(file=file)
        message = error.message if isinstance(error, tinker.RequestFailedError | tinker.APIError) else str(error)
        raise EngineTrouble(f"the engine failed: {one_line(message)} (traceback in {log})") from error
