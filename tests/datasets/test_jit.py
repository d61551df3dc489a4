"""Pieces of work run on any number of threads."""

import pytest

from scisci_gym.datasets.jit import run_chunks, thread_count


@pytest.mark.parametrize("threads", [1, 3])
def test_every_piece_runs_once(threads):
    ran = []
    run_chunks(ran.append, [(i,) for i in range(20)], threads)
    assert sorted(ran) == list(range(20))


@pytest.mark.parametrize("threads", [1, 3])
def test_errors_reach_the_caller(threads):
    def fail(i):
        if i == 5:
            raise RuntimeError("piece 5")

    with pytest.raises(RuntimeError, match="piece 5"):
        run_chunks(fail, [(i,) for i in range(20)], threads)


def test_threads_from_the_environment(monkeypatch):
    monkeypatch.setenv("SCISCI_GYM_THREADS", "3")
    assert thread_count() == 3
    assert thread_count(2) == 2
    monkeypatch.setenv("SCISCI_GYM_THREADS", "many")
    with pytest.raises(ValueError, match="SCISCI_GYM_THREADS must be a positive integer, got 'many'"):
        thread_count()
