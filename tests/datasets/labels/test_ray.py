"""Labels on a Ray cluster of two nodes: the same bits as in one process, also when a worker is killed."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.disruption.year_ranks import YearRanks
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.ray import ray_atypicality, ray_disruption_counts
from scisci_gym.datasets.labels.table import label_table
from scisci_gym.datasets.labels.table_file import write_labels
from scisci_gym.datasets.novelty import atypicality
from scisci_gym.datasets.ray_executor import RayExecutor

ray = pytest.importorskip("ray", reason="Ray is an optional extra: pip install 'scisci-gym[ray]'")
Cluster = pytest.importorskip("ray.cluster_utils").Cluster
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # A test of another file may have left its own cluster.
    ray.shutdown()
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    papers = 6000
    citing, cited = rng.integers(0, papers, (2, 90_000))
    graph = CitationGraph.from_edges(citing, cited, rng.integers(1990, 2005, papers))
    folder = tmp_path_factory.mktemp("graph")
    graph.save(folder)
    return folder, graph, rng.integers(-1, 40, papers)


def _node(_: int) -> str:
    time.sleep(0.5)
    return ray.get_runtime_context().get_node_id()


def test_tasks_run_on_both_nodes():
    assert sum(node["Alive"] for node in ray.nodes()) == 2
    assert len(set(RayExecutor("this test").map(_node, range(8)))) == 2


def test_counts_are_identical(saved):
    folder, graph, _ = saved
    for ours, one in zip(ray_disruption_counts(folder, chunk=500), disruption_counts(graph), strict=True):
        assert ours.tobytes() == one.tobytes()


@pytest.mark.parametrize("window", [5, None])
def test_slices_of_the_citing_years_are_identical(saved, window):
    folder, graph, _ = saved
    memory = YearRanks(graph, threads=1).least_bytes + 100_000
    assert len(YearRanks(graph, threads=1).parts(memory)) > 3
    slices = ray_disruption_counts(folder, window, memory=memory)
    for ours, one in zip(slices, disruption_counts(graph, window), strict=True):
        assert ours.tobytes() == one.tobytes()


def test_a_table_of_labels_is_identical(saved, tmp_path):
    folder, _, venues = saved
    papers = pa.table({"venue": venues})
    for engine, memory in (("local", None), ("ray", 4_000_000)):
        table = label_table(folder, papers=papers, samples=6, engine=engine, memory=memory)
        write_labels(table, tmp_path / f"{engine}.parquet")
    assert (tmp_path / "local.parquet").read_bytes() == (tmp_path / "ray.parquet").read_bytes()


@pytest.mark.parametrize("null", ["shuffle", "switch"])
@pytest.mark.parametrize("memory", [None, 4_000_000])
def test_atypicality_is_identical(saved, null, memory):
    folder, graph, venues = saved
    distributed = ray_atypicality(folder, venues, null=null, samples=6, seed=3, memory=memory)
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
    results = list(RayExecutor("this test").map(_slow_task, range(8), [str(tmp_path)] * 8))
    thread.join()
    assert killed
    assert results == list(range(8))
    runs = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    assert len(runs) == 8 + 1  # one task ran twice, the others once


def _workers_on(task: str) -> list[int]:
    """Processes below this one that run `task`; Ray names a worker after the task it is at."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"ray::{task}" in (folder / "cmdline").read_text() and os.getpid() in _ancestors(int(folder.name)):
                found.append(int(folder.name))
        except FileNotFoundError:
            continue  # ended while we looked
    return found


def _ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.add(pid)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the worker to kill in /proc")
def test_labels_survive_a_killed_worker(saved):
    folder, graph, venues = saved
    killed = []

    def kill_one():
        while not (workers := _workers_on("_atypicality_task")):
            time.sleep(0.01)
        os.kill(workers[0], signal.SIGKILL)
        killed.append(workers[0])

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    distributed = ray_atypicality(folder, venues, samples=200)
    thread.join(timeout=5)
    assert killed
    local = atypicality(graph, venues, samples=200)
    for ours, one in zip(distributed, local, strict=True):
        assert ours.tobytes() == one.tobytes()
