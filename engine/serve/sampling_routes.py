"""The sampling part of the protocol: sessions on frozen weights, and samples from them."""

from typing import Any

from aiohttp import web

from ..errors import RequestError
from ..protocol import messages as m
from ..protocol import wire
from ..protocol.requests import sample_request
from .backend import Backend
from .client_sessions import ClientSessions
from .promises import Promise
from .sampling_sessions import SamplingSession
from .scheduler import SampleJob
from .work import Work


class SamplingRoutes:
    """Sampling sessions and requests."""

    def __init__(self, backend: Backend, work: Work, clients: ClientSessions) -> None:
        self.backend, self.work, self.clients = backend, work, clients

    def add_to(self, app: web.Application, api: str) -> None:
        post = app.router.add_post
        post(f"{api}/create_sampling_session", self.create_sampling_session)
        post(f"{api}/join_sampling_session", self.join_sampling_session)
        post(f"{api}/asample", self.asample)
        app.router.add_get(f"{api}/samplers/{{id}}", self.sampler)

    async def create_sampling_session(self, request: web.Request) -> web.Response:
        body = m.parse(m.CreateSamplingSession, await request.read())
        owner, seed = body.session_id, self.clients.get(body.session_id).seed
        if body.model_path is not None:
            path = body.model_path
            session_id = await self.work.done(lambda: self.backend.sampler_from_path(path, owner, seed))
        elif body.base_model is not None:
            name = body.base_model
            session_id = await self.work.done(lambda: self.backend.sampler_from_base(name, owner, seed))
        else:
            raise RequestError("create_sampling_session needs model_path or base_model")
        return web.json_response({"type": "create_sampling_session", "sampling_session_id": session_id})

    async def join_sampling_session(self, request: web.Request) -> web.Response:
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
        promise = self.work.promises.find(key)
        if promise is None:
            payload = sample_request(body, session.base)
            promise = self.work.promises.create(key)
            session.waiting += 1
            promise.future.add_done_callback(lambda _: _answered(session))

            def report(result: Any, promise: Promise = promise) -> None:
                self.work.promises.resolve(
                    promise, result if isinstance(result, Exception) else wire.sample_bytes(result)
                )

            self.work.sample(promise, SampleJob(session_id, body.seq_id, payload, report))
        ids = [f"{promise.request_id}:{i}" for i in range(body.num_samples)]
        return web.json_response({"request_id": promise.request_id, "sample_sequence_ids": ids})


def _answered(session: SamplingSession) -> None:
    session.waiting -= 1
