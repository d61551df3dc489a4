"""Frozen weights that clients sample from: the latest in memory, older ones on disk within a limit."""

import itertools
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from ..compute.adapters import AdapterWeights, LoraSpec, adapter_from_tensors
from ..compute.checkpoints import CheckpointPath, CheckpointStore
from ..compute.model import BaseModel
from ..compute.token_choice import OccurrenceKeys
from ..errors import RequestError
from ..folders import OwnFolder

IN_MEMORY = 16
"""Sessions whose adapters stay in memory. An RL run opens one per step and rarely looks back."""
SESSIONS = 1024
"""Sessions that are known at all; a client that returns to an older one is told to make it anew."""


@dataclass(eq=False)
class SamplingSession:
    """Weights to sample from."""

    session_id: str
    base: BaseModel
    keys: OccurrenceKeys
    owner: str  # Id of the client session that opened it, with which it ends.
    source: CheckpointPath | None  # The checkpoint they came from; None for the base model and straight from training.
    saved: str | None  # When that was saved.
    spec: LoraSpec | None  # None for the base model.
    file: Path  # Where the weights are put when they leave the memory.
    # These three belong to the worker thread. There is no adapter for the base model and while it is on disk only.
    adapter: AdapterWeights | None = field(repr=False)
    last_used: int  # The number of the use that was the last.
    file_bytes: int = 0  # Size of the file; 0 without one.
    # These two are changed on the event loop only: requests not answered yet, and clients in other processes.
    waiting: int = 0
    joined: int = 0


class SamplingSessions:
    """All sampling sessions.

    `get` and `of` may be called from any thread: the table of sessions is replaced whole and never changed in place.
    Everything else belongs to the worker thread. Beyond `max_bytes` for all files of weights the least recently used
    sessions are forgotten, but none with requests that are not answered yet. Weights of a named checkpoint are read
    from it again and take no room here.
    """

    def __init__(self, store: CheckpointStore, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._own = OwnFolder(store.root / ".sampling")
        self._sessions: dict[str, SamplingSession] = {}
        self._uses = itertools.count(1)

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        base: BaseModel,
        keys: OccurrenceKeys,
        owner: str,
        adapter: AdapterWeights | None = None,
        source: CheckpointPath | None = None,
        saved: str | None = None,
    ) -> str:
        name = f"sampler-{uuid.uuid4().hex}"
        spec, file = adapter.spec if adapter is not None else None, self._own.path / f"{name}.safetensors"
        session = SamplingSession(name, base, keys, owner, source, saved, spec, file, adapter, next(self._uses))
        self._sessions = {**self._sessions, name: session}
        self._make_room()
        return name

    def get(self, session_id: str) -> SamplingSession:
        """The session with this id; a `RequestError` (404) if there is none."""
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(
                f"sampling session {session_id!r} is not known: its client has ended, it is too old, or the server was "
                "restarted; create a new sampling client",
                status=404,
            )
        return session

    def of(self, owner: str) -> list[str]:
        """The sessions that a client has opened, oldest first."""
        return [name for name, session in self._sessions.items() if session.owner == owner]

    def end(self, owner: str) -> None:
        """Forget the sessions of a client that has ended, and delete their files."""
        self._forget([session for session in self._sessions.values() if session.owner == owner])

    def adapter(self, session: SamplingSession) -> AdapterWeights | None:
        """The session's weights, read back from disk if need be. A checkpoint that they came from must still be there,
        and must not have been overwritten.
        """
        session.last_used = next(self._uses)
        if session.spec is not None and session.adapter is None:
            tensors = self._tensors(session)
            layers, device = session.base.layers, session.base.device
            session.adapter = adapter_from_tensors(layers, session.spec, tensors, device).frozen()
            self._make_room()
        return session.adapter

    def _tensors(self, session: SamplingSession) -> dict[str, Tensor]:
        if session.source is None:
            tensors = load_file(session.file)
            session.file.unlink()
            session.file_bytes = 0
            return tensors
        checkpoint = self._store.load(session.source)
        if checkpoint.info.time != session.saved:
            raise RequestError(
                f"{session.source} was overwritten after this sampling client was made from it; create a new one",
                status=404,
            )
        return checkpoint.tensors

    def _make_room(self) -> None:
        by_age = sorted(self._sessions.values(), key=lambda session: session.last_used)
        for session in [session for session in by_age if session.adapter is not None][:-IN_MEMORY]:
            if session.source is None and not session.file_bytes:
                _write(session)
            session.adapter = None
        excess, used = len(by_age) - SESSIONS, sum(session.file_bytes for session in by_age)
        dropped = []
        for session in by_age[:-1]:
            if not session.waiting and (excess > 0 or (used > self._max_bytes and session.file_bytes)):
                dropped.append(session)
                excess -= 1
                used -= session.file_bytes
        self._forget(dropped)

    def _forget(self, sessions: list[SamplingSession]) -> None:
        gone = {session.session_id for session in sessions}
        self._sessions = {key: session for key, session in self._sessions.items() if key not in gone}
        for session in sessions:
            session.file.unlink(missing_ok=True)


def _write(session: SamplingSession) -> None:
    assert session.adapter is not None
    aside = session.file.with_suffix(".part")
    try:
        save_file(session.adapter.named_tensors(), aside)
        os.replace(aside, session.file)
    finally:
        aside.unlink(missing_ok=True)
    session.file_bytes = session.file.stat().st_size
