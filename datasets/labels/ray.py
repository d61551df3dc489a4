"""The same labels on a Ray cluster: chunks of focal papers, and citing years, over one memory-mapped graph.

Every task reads the graph from the folder it was saved to (shared by all machines) and returns only its own papers, so
a result is the same to the last bit as in one process, and when a worker dies Ray runs its task again and nothing else.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..disruption.cd_index import checked_window, require_papers
from ..disruption.counting import CHUNK, YearRanks, count
from ..graph.citation_graph import CitationGraph
from ..novelty.atypicality import Atypicality, atypicality_of_year, checked_request

RETRIES = 10


def _ray() -> ModuleType:
    """The `ray` package, connected to a cluster; raises `ImportError` where it is not installed."""
    try:
        ray = import_module("ray")  # as a text, because type checkers take this file for it
    except ImportError as error:
        raise ImportError("engine 'ray' needs Ray: pip install 'scisci-gym[ray]'") from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def ray_disruption_counts(
    directory: str | Path, window: int | None = 5, *, chunk: int = 64 * CHUNK
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`disruption_counts` of a saved graph, on Ray, with the same result to the last bit, `chunk` papers per task.

    Every worker must see the folder. Raises `ImportError` without Ray.
    """
    window = checked_window(window)
    graph = CitationGraph.load(directory)
    require_papers(graph)
    path = str(Path(directory).resolve())
    counts = np.zeros((3, graph.n_papers), np.int64)
    tasks = [(path, window, low, low + chunk) for low in range(0, graph.n_papers, chunk)]
    for papers, values in _each(_count_task, tasks):
        counts[:, papers] = values
    return counts[0], counts[1], counts[2]


def ray_atypicality(
    directory: str | Path, venues: npt.ArrayLike, *, null: str = "shuffle", samples: int | None = None, seed: int = 0
) -> Atypicality:
    """`atypicality` of a saved graph, on Ray, one task per citing year, with the same result to the last bit."""
    graph = CitationGraph.load(directory)
    array, samples, years = checked_request(graph, venues, null, samples, seed)
    path, shared = str(Path(directory).resolve()), _ray().put(array)
    tasks = [(path, shared, year, papers, null, samples, seed) for year, papers in years]
    return Atypicality.of_years(graph.n_papers, _each(_atypicality_task, tasks))


def _each(function: Any, tasks: list[tuple[Any, ...]]):
    """Results of ``function(*task)`` as they finish; Ray runs the task of a lost worker again."""
    ray = _ray()
    remote = ray.remote(max_retries=RETRIES)(function)
    pending = [remote.remote(*task) for task in tasks]
    while pending:
        finished, pending = ray.wait(pending)
        yield ray.get(finished[0])


@lru_cache(maxsize=1)
def _graph(directory: str) -> tuple[CitationGraph, YearRanks]:
    graph = CitationGraph.load(directory)
    return graph, YearRanks(graph, threads=1)


def _count_task(directory: str, window: int | None, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    graph, ranks = _graph(directory)
    papers = ranks.order[low:high]
    counts = np.zeros((3, graph.n_papers), np.int64)
    count(papers, ranks.walk(window), ranks.new_scratch(window), counts)
    return papers, counts[:, papers]


def _atypicality_task(
    directory: str, venues: np.ndarray, year: int, papers: np.ndarray, null: str, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    graph = CitationGraph.load(directory)
    return papers, *atypicality_of_year(graph, venues, year, papers, null, samples, seed)
