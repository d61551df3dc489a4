"""Frozen weights that clients sample from, and where they wait while nobody does."""

import shutil
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file

from .adapters import AdapterWeights, adapter_from_tensors
from .checkpoints import CheckpointPath, CheckpointStore
from .errors import RequestError
from .lora import LoraSpec
from .model import BaseModel
from .random_streams import OccurrenceKeys

IN_MEMORY = 16
"""Sessions whose adapters stay in memory. An RL run opens one per step and rarely looks back."""
ON_DISK = 1024
"""Sessions whose weights are kept at all; a client that returns to an older one is told to make it anew."""


@dataclass
class SamplingSession:
    """Weights to sample from.

    Parameters
    ----------
    source
        The checkpoint they came from; None for the base model and for weights taken straight from training.
    spec
        None for the base model.
    adapter
        None for the base model, and while the weights are on disk only.
    """

    session_id: str
    base: BaseModel
    keys: OccurrenceKeys
    source: CheckpointPath | None = None
    spec: LoraSpec | None = None
    adapter: AdapterWeights | None = None


class SamplingSessions:
    """All sampling sessions; the least recently used give up their memory."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._folder = store.root / ".sampling"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._sessions: OrderedDict[str, SamplingSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self,
        base: BaseModel,
        keys: OccurrenceKeys,
        adapter: AdapterWeights | None = None,
        source: CheckpointPath | None = None,
    ) -> SamplingSession:
        session_id = f"sampler-{uuid.uuid4().hex}"
        spec = adapter.spec if adapter is not None else None
        session = SamplingSession(session_id, base, keys, source, spec, adapter)
        self._sessions[session_id] = session
        self._make_room()
        return session

    def get(self, session_id: str) -> SamplingSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(
                f"sampling session {session_id!r} is not known: it is too old, or the server was restarted; "
                "create a new sampling client",
                status=404,
            )
        return session

    def adapter(self, session: SamplingSession) -> AdapterWeights | None:
        """The session's weights, read back from disk if need be."""
        self._sessions.move_to_end(session.session_id)
        if session.spec is not None and session.adapter is None:
            if session.source is not None:
                tensors = self._store.load(session.source).tensors
            else:
                tensors = load_file(self._file(session))
            layers, device = session.base.layers, session.base.device
            session.adapter = adapter_from_tensors(layers, session.spec, tensors, device).frozen()
            self._make_room()
        return session.adapter

    def _file(self, session: SamplingSession) -> Path:
        return self._folder / f"{session.session_id}.safetensors"

    def _make_room(self) -> None:
        loaded = [s for s in self._sessions.values() if s.adapter is not None]
        for session in loaded[:-IN_MEMORY]:
            if session.source is None and session.adapter is not None and not self._file(session).exists():
                self._folder.mkdir(exist_ok=True)
                save_file(session.adapter.named_tensors(), self._file(session))
            session.adapter = None
        while len(self._sessions) > ON_DISK:
            _, oldest = self._sessions.popitem(last=False)
            self._file(oldest).unlink(missing_ok=True)
