"""The tasks that a Ray cluster would run, run here one by one: each stands alone, and together they are the whole."""

from concurrent.futures import Executor, Future

import numpy as np
import pytest

from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.disruption.year_ranks import YearRanks
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels import ray as tasks
from scisci_gym.datasets.novelty import atypicality


class Inline(Executor):
    """`RayExecutor` without Ray: a call runs when it is submitted."""

    def __init__(self):
        self.calls = 0

    def share(self, value):
        return value

    def submit(self, fn, /, *args, **kwargs):
        self.calls += 1
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def executor(monkeypatch):
    inline = Inline()
    monkeypatch.setattr(tasks, "_executor", lambda: inline)
    return inline


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    citing, cited = rng.integers(0, 400, (2, 4000))
    graph = CitationGraph.from_edges(citing, cited, rng.integers(1990, 2005, 400))
    graph.save(tmp_path)
    return tmp_path, graph, rng.integers(-1, 20, 400)


@pytest.mark.parametrize("window", [5, None])
def test_a_task_is_a_slice_of_the_citing_years_or_a_chunk_of_papers(saved, executor, window):
    folder, graph, _ = saved
    ranks = YearRanks(graph, threads=1)
    memory = ranks.least_bytes + 2000
    whole = disruption_counts(graph, window)
    for options, calls in (({"memory": memory}, len(ranks.parts(memory))), ({"chunk": 90}, 5)):
        executor.calls = 0
        for ours, one in zip(tasks.ray_disruption_counts(folder, window, **options), whole, strict=True):
            assert ours.tobytes() == one.tobytes()
        assert executor.calls == calls > 4


def test_a_task_is_a_citing_year(saved, executor):
    folder, graph, venues = saved
    whole = atypicality(graph, venues, samples=4, seed=3)
    distributed = tasks.ray_atypicality(folder, venues, samples=4, seed=3, memory=200_000)
    assert executor.calls == 15
    for ours, one in zip((*distributed, distributed.halves), (*whole, whole.halves), strict=True):
        assert ours.tobytes() == one.tobytes()
