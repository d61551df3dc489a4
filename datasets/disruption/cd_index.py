"""The CD index: do later papers cite a paper instead of, or together with, what it builds on?"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..disk_arrays import new_array
from ..graph.citation_graph import CitationGraph
from .counting import count
from .year_ranks import YearRanks

AT_A_TIME = 1 << 21


def disruption_counts(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None, memory: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count the later papers that cite a paper, its references, or both.

    Parameters
    ----------
    graph : CitationGraph
    window : int or None
        A citing paper ``c`` counts for a paper of year ``t`` when ``t < year(c) <= t + window``; None has no upper end.
    threads : int, optional
        Default: every core. The result does not depend on it.
    memory : int, optional
        Bytes, beside the graph: count the citing papers of some years (or a part of a year) after another, as many as
        fit, into arrays in a temporary file. The result does not depend on it. Default: all at once, with every page of
        a memory-mapped graph in use. See `YearRanks.part_bytes` for what is counted.

    Returns
    -------
    n_i, n_j, n_k : int64 arrays (N,)
        Papers that cite the focal paper only; it and at least one of its references; its references only.

    Raises
    ------
    ValueError
        A window that is not a positive integer or None; a graph without papers; too little memory.

    Examples
    --------
    Paper 2 cites 0 and 1. Later, 3 cites 2 only, 4 cites 2 and 0, 5 cites 1 only.

    >>> graph = CitationGraph.from_edges([2, 2, 3, 4, 4, 5], [0, 1, 2, 2, 0, 1], [1990, 1990, 1992, 1994, 1994, 1995])
    >>> [n[2].item() for n in disruption_counts(graph)]
    [1, 1, 1]

    Notes
    -----
    The PyPI package `cdindex` 1.0.20 gives the same counts, except that it keeps edges from a paper to itself; see
    docs/labels.md.

    References
    ----------
    Funk & Owen-Smith (2017), "A dynamic network measure of technological change", Management Science 63(3).
    """
    n_i, n_j, n_k = counts_of_papers(count, graph, window, threads, memory, 3)
    return n_i, n_j, n_k


def cd_index(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None, memory: int | None = None
) -> np.ndarray:
    """CD index: (n_i - n_j) / (n_i + n_j + n_k), from -1 (consolidating) to 1 (disruptive).

    A paper without references has n_j = n_k = 0, so a single citation makes it 1. That value is kept here and is an
    artefact (Holst et al. 2024): look at the reference count beside it.

    Parameters and errors are those of `disruption_counts`.

    Returns
    -------
    float64 array (N,)
        In [-1, 1]; NaN where no paper counts.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([2, 2, 3, 4, 4, 5], [0, 1, 2, 2, 0, 1], [1990, 1990, 1992, 1994, 1994, 1995])
    >>> cd_index(graph)[2].item()
    0.0

    References
    ----------
    Funk & Owen-Smith (2017), Management Science 63(3); windowed as CD_5 in Park, Leahey & Funk (2023),
    "Papers and patents are becoming less disruptive over time", Nature 613.
    Holst et al. (2024), "Dataset artefacts are the hidden drivers of the declining disruptiveness in science".
    """
    return cd_of_counts(disruption_counts(graph, window, threads=threads, memory=memory))


def counts_of_papers(
    kernel: Callable[..., Any],
    graph: CitationGraph,
    window: int | None,
    threads: int | None,
    memory: int | None,
    kinds: int,
    *more: int,
) -> np.ndarray:
    """What a kernel of `counting` counts for every paper of a graph: int64 array (kinds, N, *more)."""
    window = checked_window(window)
    require_papers(graph)
    counts = new_array((kinds, graph.n_papers, *more), np.int64, on_disk=memory is not None)
    ranks = YearRanks(graph, threads)
    ranks.run(lambda papers, walk, scratch: kernel(papers, walk, scratch, counts), window, memory)
    return counts


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Elementwise quotient as float64, NaN where the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, np.true_divide(numerator, denominator))


def cd_of_counts(counts: Sequence[np.ndarray], on_disk: bool = False) -> np.ndarray:
    """`cd_index` of what `disruption_counts` returned, float64 (N,), in memory or in a temporary file."""
    n_i, n_j, n_k = counts
    return in_parts(n_i.size, lambda part: ratio(n_i[part] - n_j[part], n_i[part] + n_j[part] + n_k[part]), on_disk)


def in_parts(size: int, values: Callable[[slice], np.ndarray], on_disk: bool = False) -> np.ndarray:
    """``values(part)`` of a few million papers after another, float64 (size,); only the result is held whole."""
    result = new_array((size,), np.float64, on_disk)
    for start in range(0, size, AT_A_TIME):
        part = slice(start, min(start + AT_A_TIME, size))
        result[part] = values(part)
    return result


def checked_window(window: int | None) -> int | None:
    """`window` as an int or None; raises `ValueError` when it is neither, or below 1."""
    if window is None:
        return None
    return checked_integer(window, 1, "window must be a positive number of years, or None for no window")


def checked_integer(value: Any, least: int, rule: str) -> int:
    """`value` as an int; raises `ValueError`, which states the rule and the value, when it is no integer or too low."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{rule}, got {value!r}")
    return int(value)


def require_papers(graph: CitationGraph) -> None:
    """Raise `ValueError` for a graph without papers."""
    if graph.n_papers == 0:
        raise ValueError(
            "the graph has no papers (years is empty), so there is nothing to compute; check the edge and year arrays"
        )
