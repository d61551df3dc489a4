"""Labels on Ray: the same bits as in one process, also when a worker is killed."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.novelty import atypicality
from scisci_gym.datasets.scale_out import _each, ray_atypicality, ray_disruption_counts

ray = pytest.importorskip("ray", reason="Ray is an optional extra: pip install 'scisci-gym[ray]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    papers = 6000
    citing, cited = rng.integers(0, papers, (2, 90_000))
    graph = CitationGraph.from_edges(citing, cited, rng.integers(1990, 2005, papers))
    folder = tmp_path_factory.mktemp("graph")
    graph.save(folder)
    return folder, graph, rng.integers(-1, 40, papers)


def test_counts_are_identical(saved):
    folder, graph, _ = saved
    for ours, one in zip(ray_disruption_counts(folder, chunk=500), disruption_counts(graph), strict=True):
        assert ours.tobytes() == one.tobytes()


@pytest.mark.parametrize("null", ["shuffle", "switch"])
def test_atypicality_is_identical(saved, null):
    folder, graph, venues = saved
    distributed = ray_atypicality(folder, venues, null=null, samples=6, seed=3)
    local = atypicality(graph, venues, null=null, samples=6, seed=3)
    for ours, one in zip((*distributed, distributed.n_left_out), (*local, local.n_left_out), strict=True):
        assert ours.tobytes() == one.tobytes()


def _slow_task(number: int, folder: str) -> int:
    with open(f"{folder}/{number}-{os.getpid()}-{time.monotonic_ns()}", "w"):
        time.sleep(0.5)
    return number


def test_a_killed_worker_costs_only_its_task(tmp_path):
    killed = []

    def kill_one():
        while not (started := sorted(tmp_path.iterdir())):
            time.sleep(0.05)
        killed.append(int(started[0].name.split("-")[1]))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    results = sorted(_each(_slow_task, [(number, str(tmp_path)) for number in range(8)]))
    thread.join()
    assert killed
    assert results == list(range(8))
    runs = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert len(runs) == 8 + 1  # one task ran twice, the others once


def test_labels_survive_a_killed_worker(saved):
    folder, graph, venues = saved
    pid = ray.remote(os.getpid)

    def kill_one():
        os.kill(ray.get(pid.remote()), signal.SIGKILL)

    thread = threading.Timer(0.3, kill_one)
    thread.start()
    distributed = ray_atypicality(folder, venues, samples=400)
    thread.join()
    local = atypicality(graph, venues, samples=400)
    for ours, one in zip(distributed, local, strict=True):
        assert ours.tobytes() == one.tobytes()
