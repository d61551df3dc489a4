"""Clients: each has a session that it keeps alive by heartbeats, and its models end with it."""

import time
import uuid

from aiohttp import web

from . import messages as m
from .backend import Backend
from .errors import RequestError
from .work import Work

SESSION_SECONDS = 1800.0
"""A client that sent no heartbeat for this long is gone, and its models with it."""


class ClientSessions:
    """Routes of the sessions, and who is alive."""

    def __init__(self, backend: Backend, work: Work) -> None:
        self._backend, self._work = backend, work
        self._last_seen: dict[str, float] = {}

    def add_to(self, app: web.Application, api: str) -> None:
        app.router.add_post(f"{api}/create_session", self.create_session)
        app.router.add_post(f"{api}/session_heartbeat", self.heartbeat)
        app.router.add_post(f"{api}/sessions/{{id}}/finish", self.finish_session)

    def model_id(self, session_id: str, number: int) -> str:
        """The id of a session's model.

        Raises
        ------
        RequestError
            If there is no such session.
        """
        if session_id not in self._last_seen:
            raise RequestError(f"session {session_id!r} is not known; create a new ServiceClient", status=404)
        return f"{session_id}:train:{number}"

    def sweep(self) -> None:
        """End the sessions of clients that are gone."""
        now = time.monotonic()
        for session_id, seen in list(self._last_seen.items()):
            if now - seen > SESSION_SECONDS:
                self._end(session_id)

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
        self._end(request.match_info["id"])
        return web.json_response({})

    def _end(self, session_id: str) -> None:
        self._last_seen.pop(session_id, None)
        self._work.later(lambda: self._backend.end_session(session_id))
