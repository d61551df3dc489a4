"""The same labels on a Ray cluster: slices of the citing years, or chunks of focal papers, over one mapped graph.

Every task reads the graph from the folder it was saved to (shared by all machines) and returns only its own papers, so
a result is the same to the last bit as in one process, and when a worker dies Ray runs its task again and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..disk_arrays import new_array
from ..disruption.cd_index import checked_window, require_papers
from ..disruption.counting import Walk, count
from ..disruption.year_ranks import CHUNK, YearRanks, new_scratch
from ..graph.citation_graph import CitationGraph
from ..novelty.atypicality import Atypicality, atypicality_of_year, checked_request
from ..ray_executor import RayExecutor

# A cluster that loses machines now and then still finishes.
RETRIES = 10


def ray_disruption_counts(
    directory: str | Path, window: int | None = 5, *, chunk: int = 64 * CHUNK, memory: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`disruption_counts` of a saved graph, on Ray, with the same result to the last bit.

    A task counts for `chunk` papers or, with `memory`, counts the citing papers of a slice of years for which so many
    bytes suffice. Every worker must see the folder. Raises `ImportError` without Ray.
    """
    window = checked_window(window)
    graph = CitationGraph.load(directory)
    require_papers(graph)
    path = str(Path(directory).resolve())
    if memory is None:
        tasks = [(path, window, (low, min(low + chunk, graph.n_papers))) for low in range(0, graph.n_papers, chunk)]
    else:
        tasks = [(path, window, part) for part in YearRanks(graph, threads=1).parts(memory)]
    counts = new_array((3, graph.n_papers), np.int64, on_disk=memory is not None)
    for papers, values in _finished(_executor(), _count_task if memory is None else _slice_task, tasks):
        counts[:, papers] += values
    return counts[0], counts[1], counts[2]


def ray_atypicality(
    directory: str | Path,
    venues: npt.ArrayLike,
    *,
    null: str = "shuffle",
    samples: int | None = None,
    seed: int = 0,
    memory: int | None = None,
) -> Atypicality:
    """`atypicality` of a saved graph, on Ray, one task per citing year, with the same result to the last bit.

    `memory` is that of one task, in bytes.
    """
    graph = CitationGraph.load(directory)
    array, samples, years = checked_request(graph, venues, null, samples, seed)
    path, executor = str(Path(directory).resolve()), _executor()
    shared = executor.share(array)
    tasks = [(path, shared, year, papers, null, samples, seed, memory) for year, papers in years]
    years = _finished(executor, _atypicality_task, tasks)
    return Atypicality.of_years(graph.n_papers, years, on_disk=memory is not None)


def _executor() -> RayExecutor:
    return RayExecutor("engine 'ray'", retries=RETRIES)


def _finished(executor: Executor, task: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of ``task(*each)`` as they finish."""
    for future in as_completed([executor.submit(task, *each) for each in arguments]):
        yield future.result()


@lru_cache(maxsize=1)
def _graph(directory: str) -> CitationGraph:
    return CitationGraph.load(directory)


@lru_cache(maxsize=1)
def _ranks(directory: str) -> YearRanks:
    return YearRanks(_graph(directory), threads=1)


@lru_cache(maxsize=1)
def _whole_walk(directory: str, window: int | None) -> Walk:
    return _ranks(directory).walk(window)


def _count_task(directory: str, window: int | None, focal: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The counts of the papers of these ranks."""
    graph, ranks = _graph(directory), _ranks(directory)
    papers, walk = ranks.papers(*focal), _whole_walk(directory, window)
    counts = np.zeros((3, graph.n_papers), np.int64)
    count(papers, walk, new_scratch(walk), counts)
    return papers, counts[:, papers]


def _slice_task(directory: str, window: int | None, citing: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """What the citing papers of these ranks add to the counts of the papers that they count for."""
    graph, ranks = _graph(directory), _ranks(directory)
    counts = np.zeros((3, graph.n_papers), np.int64)
    focal = ranks.run_part(lambda papers, walk, scratch: count(papers, walk, scratch, counts), window, citing)
    papers = ranks.papers(*focal)
    return papers, counts[:, papers]


def _atypicality_task(
    directory: str, venues: np.ndarray, year: int, papers: np.ndarray, *request: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`atypicality_of_year` of these papers; `request` are its other arguments."""
    return papers, *atypicality_of_year(_graph(directory), venues, year, papers, *request)
