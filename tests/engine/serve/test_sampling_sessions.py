"""Sampling sessions: freed with their client, bounded on disk, and read on the event loop while the worker writes."""

import threading
from pathlib import Path

import numpy as np
import pytest
import tinker
from toy_data import cpu_backend, random_tokens, supervised

from scisci_gym.engine import local_engine
from scisci_gym.engine.compute.adapters import LoraSpec
from scisci_gym.engine.compute.sampling import SampleRequest
from scisci_gym.engine.compute.training import TrainingDatum
from scisci_gym.engine.errors import RequestError
from scisci_gym.engine.serve import client_sessions, sampling_sessions
from scisci_gym.engine.serve.backend import Backend
from scisci_gym.engine.serve.scheduler import SampleJob

MODEL = "s:train:0"
REQUEST = SampleRequest((5, 6, 7), (b"key",), 4)


@pytest.fixture
def backend(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """One adapter stays in memory, and the files of two and a half fit on the disk."""
    monkeypatch.setattr(sampling_sessions, "IN_MEMORY", 1)
    backend = cpu_backend(tmp_path, {"tiny": tiny_model})
    backend.create_model(MODEL, "tiny", LoraSpec(rank=2, seed=0), {})
    backend.sampler_from_model(MODEL)
    backend.sampler_from_model(MODEL)
    backend.sessions._max_bytes = files(backend)[0] * 5 // 2
    backend.sessions.end("s")
    return backend


def files(backend: Backend) -> list[int]:
    return [path.stat().st_size for path in backend.store.root.glob(".sampling/*/*")]


def known(backend: Backend, session_id: str) -> bool:
    try:
        return backend.sessions.get(session_id).session_id == session_id
    except RequestError:
        return False


def sample(backend: Backend, session_id: str) -> object:
    return backend.serve_samples([SampleJob(session_id, None, REQUEST, lambda _: None)])[0]


def test_the_oldest_weights_give_way_on_disk(backend: Backend) -> None:
    """Six samplers: the last one is in memory, two are on disk, and three are forgotten."""
    opened = [backend.sampler_from_model(MODEL) for _ in range(6)]
    assert [known(backend, one) for one in opened] == [False, False, False, True, True, True]
    assert len(files(backend)) == 2
    assert sum(files(backend)) <= backend.sessions._max_bytes
    assert isinstance(sample(backend, opened[0]), RequestError)
    assert not isinstance(sample(backend, opened[3]), Exception)
    # What was used last is young again: now 4 is the oldest.
    backend.sampler_from_model(MODEL)
    backend.sampler_from_model(MODEL)
    assert [known(backend, one) for one in opened[3:]] == [True, False, False]


def test_what_is_waited_for_and_what_has_a_name_stays(backend: Backend) -> None:
    named = backend.sampler_from_path(backend.save(MODEL, "sampler_weights", "x"), "s")
    from_base = backend.sampler_from_base("tiny", "s")
    awaited = backend.sampler_from_model(MODEL)
    backend.sessions.get(awaited).waiting += 1
    for _ in range(6):
        backend.sampler_from_model(MODEL)
    for session_id in (named, from_base, awaited):
        assert not isinstance(sample(backend, session_id), Exception)
    assert [info.path for info in backend.store.list()] == [f"tinker://{MODEL}/sampler_weights/x"]


def test_weights_come_back_from_disk_unchanged(backend: Backend) -> None:
    first = backend.sampler_from_model(MODEL)
    expected = sample(backend, first)
    backend.sampler_from_model(MODEL)
    assert backend.sessions.get(first).adapter is None
    assert sample(backend, first) == expected


def test_a_full_disk_leaves_no_half_file(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    first = backend.sampler_from_model(MODEL)

    def fill(_tensors: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(sampling_sessions, "save_file", fill)
        with pytest.raises(OSError, match="no space"):
            backend.sampler_from_model(MODEL)
    assert not files(backend)
    assert not isinstance(sample(backend, first), Exception)


def test_a_checkpoint_overwritten_meanwhile_is_not_taken_for_the_old_one(backend: Backend) -> None:
    session_id = backend.sampler_from_path(backend.save(MODEL, "sampler_weights", "x"))
    backend.sampler_from_model(MODEL)
    backend.save(MODEL, "sampler_weights", "x", overwrite=True)
    answer = sample(backend, session_id)
    assert isinstance(answer, RequestError)
    assert "overwritten" in str(answer)


def test_the_end_of_a_client_ends_its_samplers_and_no_others(backend: Backend) -> None:
    backend.create_model("t:train:0", "tiny", LoraSpec(rank=2, seed=0), {})
    of_s = [
        backend.sampler_from_model(MODEL),
        backend.sampler_from_base("tiny", "s"),
        backend.sampler_from_model(MODEL),
    ]
    of_t = [backend.sampler_from_model("t:train:0"), backend.sampler_from_base("tiny", "t")]
    assert files(backend)
    backend.end_session("s")
    assert [known(backend, one) for one in of_s + of_t] == [False] * 3 + [True] * 2
    assert list(backend.models) == ["t:train:0"]
    backend.end_session("t")
    assert not len(backend.sessions)
    assert not files(backend)


def test_a_reader_keeps_the_table_that_it_began_with(backend: Backend) -> None:
    """The worker replaces the tables that the event loop reads, and never changes one in place."""
    backend.sampler_from_model(MODEL)
    tables = backend.models, backend.sessions._sessions
    before = [dict(table) for table in tables]
    path = backend.save(MODEL, "weights", "x")
    backend.create_model("t:train:0", "tiny", LoraSpec(rank=2, seed=0), {})
    backend.load("t:train:1", path, with_optimizer=True)
    for _ in range(4):
        sample(backend, backend.sampler_from_model("t:train:1"))
    backend.end_session("t")
    assert [dict(table) for table in tables] == before
    assert len(backend.models) == 1


class Watched(dict):
    """A table that notes the threads that change it."""

    writers: set[str]

    def __setitem__(self, key: object, value: object) -> None:
        self.writers.add(threading.current_thread().name)
        super().__setitem__(key, value)

    def pop(self, *args: object) -> object:
        self.writers.add(threading.current_thread().name)
        return super().pop(*args)

    def __delitem__(self, key: object) -> None:
        self.writers.add(threading.current_thread().name)
        super().__delitem__(key)


def test_promises_and_clients_are_changed_on_the_event_loop_only(tiny_model: Path, tmp_path: Path) -> None:
    """A client trains and samples; every table of the loop was written by the loop's thread."""
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path, process=False) as engine:
        assert engine.thread is not None
        server = engine.thread.server
        owners = [(server.promises, "_by_id"), (server.promises, "_by_key"), (server.clients, "_alive")]
        tables = []
        for owner, name in owners:
            table = Watched(getattr(owner, name))
            table.writers = set()
            setattr(owner, name, table)
            tables.append(table)
        service = tinker.ServiceClient()
        trainer = service.create_lora_training_client(base_model="tiny", rank=2).result()
        trainer.forward_backward([supervised(random_tokens(9, 0))], "cross_entropy").result()
        trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
        sampler = trainer.save_weights_and_get_sampling_client().result()
        sampler.sample(tinker.ModelInput.from_ints([5, 6]), 1, tinker.SamplingParams(max_tokens=2)).result()
        server.promises.sweep()
        assert [table.writers - {"MainThread"} for table in tables] == [{"engine-server"}] * 3


@pytest.mark.parametrize("how", ["finish", "no heartbeat"])
def test_a_client_that_ends_frees_its_samplers(
    how: str, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_engine({"tiny": tiny_model}, checkpoints=tmp_path, process=False) as engine:
        assert engine.thread is not None
        server = engine.thread.server
        service = tinker.ServiceClient()
        trainer = service.create_lora_training_client(base_model="tiny", rank=2).result()
        trainer.save_weights_and_get_sampling_client().result()
        service.create_sampling_client(base_model="tiny").result()
        other = tinker.ServiceClient().create_sampling_client(base_model="tiny").result()
        assert len(server.backend.sessions) == 3
        (session_id,) = {model.partition(":")[0] for model in server.backend.models}

        def end() -> None:
            if how == "finish":
                server.clients._end(session_id)
            else:
                server.clients._alive[session_id].last_seen -= client_sessions.SESSION_SECONDS + 1
                server.clients.sweep()

        engine.thread._loop.call_soon_threadsafe(end)
        # Answered after the clean-up, which was queued before it.
        assert len(other.compute_logprobs(tinker.ModelInput.from_ints([5, 6])).result()) == 2
        tinker.ServiceClient().create_sampling_client(base_model="tiny").result()
        assert len(server.backend.sessions) == 2
        assert not server.backend.models


@pytest.mark.parametrize("is_small", [True, False])
def test_a_large_model_returns_what_sampling_and_training_have_freed(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    calls: list[int] = []
    monkeypatch.setattr("scisci_gym.engine.serve.backend.return_freed_memory", lambda: calls.append(1))
    model = backend.model(MODEL)
    model.base.is_small = is_small
    sample(backend, backend.sampler_from_model(MODEL))
    assert len(calls) == (0 if is_small else 1)
    tokens = np.arange(3, 12)
    inputs = {"target_tokens": tokens[1:], "weights": np.ones(8, np.float32)}
    model.forward_backward([TrainingDatum(tokens[:-1], inputs)], "cross_entropy", {})
    assert len(calls) == (0 if is_small else 2)
