"""Clients: each has a session that it keeps alive by heartbeats, and its models and samplers end with it.

A run's seed reaches the engine as the session's tag ``seed=N``: the cookbook's loops create models and samplers without
a seed, so one engine that serves several runs has no other way to tell their seeds apart.
"""

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ..compute.checkpoints import CheckpointPath
from ..errors import RequestError
from ..protocol import messages as m
from .backend import Backend, session_of
from .promises import Promises

SESSION_SECONDS = 1800.0
"""A client that sent no heartbeat for this many seconds has ended; its models and samplers are freed."""


@dataclass
class ClientSession:
    """A client that is alive: when it was last heard of (monotonic seconds), the seed of its run if it has one, and
    what else it says about itself."""

    last_seen: float
    seed: int | None
    metadata: dict[str, str] = field(default_factory=dict)
    display_name: str | None = None


class ClientSessions:
    """The sessions that have not ended, and their routes. The table is used on the event loop only."""

    def __init__(self, backend: Backend, promises: Promises) -> None:
        self._backend, self._promises = backend, promises
        self._alive: dict[str, ClientSession] = {}

    def seed(self, session_id: str) -> int | None:
        """The seed of a client's run; a `RequestError` (404) if no such client is alive."""
        session = self._alive.get(session_id)
        if session is None:
            raise RequestError(f"session {session_id!r} is not known; create a new ServiceClient", status=404)
        return session.seed

    def sweep(self) -> None:
        """End the sessions of clients that sent no heartbeat for `SESSION_SECONDS`."""
        now = time.monotonic()
        for session_id, session in list(self._alive.items()):
            if now - session.last_seen > SESSION_SECONDS:
                self._end(session_id)

    async def create_session(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateSession, await request.read())
        session_id = f"session-{uuid.uuid4().hex}"
        self._alive[session_id] = ClientSession(
            time.monotonic(),
            session_seed(body.tags),
            {key: str(value) for key, value in (body.user_metadata or {}).items()},
            body.display_name,
        )
        return web.json_response({"type": "create_session", "session_id": session_id})

    async def sessions(self, request: web.Request) -> web.Response:
        """A page of all sessions: those that are alive, the newest first, then those that have saved something."""
        offset, limit = m.number(request.query, "offset", 0), m.number(request.query, "limit", 20)
        saved = await self._promises.done(self._saved_runs)
        names = dict.fromkeys([*reversed(self._alive), *(session_of(model_id) for model_id in reversed(saved))])
        return web.json_response({"sessions": list(names)[offset : offset + limit]})

    async def session(self, request: web.Request) -> web.Response:
        session_id = request.match_info["id"]
        saved = await self._promises.done(self._saved_runs)
        runs = [model_id for model_id in saved if session_of(model_id) == session_id]
        alive = self._alive.get(session_id)
        if alive is None and not runs:
            raise RequestError(f"there is no session {session_id!r}", status=404)
        answer: dict[str, Any] = {"training_run_ids": runs, "sampler_ids": self._backend.sessions.of(session_id)}
        if alive is not None:
            answer |= {"user_metadata": alive.metadata, "display_name": alive.display_name}
        return web.json_response(answer)

    def _saved_runs(self) -> list[str]:
        """Runs with a checkpoint, the oldest first, and those in training."""
        saved = (CheckpointPath.parse(info.path).model_id for info in self._backend.store.list())
        return list(dict.fromkeys([*saved, *self._backend.models]))

    async def session_heartbeat(self, request: web.Request) -> web.Response:
        """A sign of life; 410 tells a client that it has ended."""
        body = m.parse(m.SessionHeartbeat, await request.read())
        if body.session_id not in self._alive:
            raise RequestError(f"session {body.session_id!r} has ended or belongs to an earlier server", status=410)
        self._alive[body.session_id].last_seen = time.monotonic()
        return web.json_response({"type": "session_heartbeat"})

    async def finish_session(self, request: web.Request) -> web.Response:
        self._end(request.match_info["id"])
        return web.json_response({})

    def _end(self, session_id: str) -> None:
        if self._alive.pop(session_id, None) is not None:
            self._promises.later(lambda: self._backend.end_session(session_id))


def session_seed(tags: list[str]) -> int | None:
    """The seed that a client's tags name, None without one; a `RequestError` if they name two, or no whole number.

    Examples
    --------
    >>> session_seed(["mine", "seed=3"])
    3
    """
    seeds = {tag.partition("=")[2].strip() for tag in tags if tag.partition("=")[0].strip() == "seed"}
    if len(seeds) > 1 or not all(text.removeprefix("-").isdecimal() for text in seeds):
        raise RequestError(f"the session's tags name the seed {sorted(seeds)}; give one whole number, as in seed=3")
    return int(seeds.pop()) if seeds else None
