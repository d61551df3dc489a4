"""How far a paper's CD index depends on its reference count, its era, chance and missing data.

Parameters and errors that are not stated are those of `disruption_counts`. Results are float64 arrays (N,).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..graph.citation_graph import CitationGraph
from ..graph.rewiring import SWEEPS, random_state, same_paper, switch
from ..percentiles import group_percentile
from .cd_index import cd_index, checked_integer, ratio, require_papers

REFERENCE_BINS = (0, 1, 5, 10, 20, 40, 80)


class RewiredCD(NamedTuple):
    """CD index against rewired graphs."""

    z: np.ndarray
    """(CD - mean) / sd; NaN where CD is undefined, or where sd is 0 or rests on fewer than 2 graphs."""
    mean: np.ndarray
    """Over the rewired graphs in which CD is defined."""
    sd: np.ndarray
    """Over the same graphs, ddof 0."""


def cd_percentile(
    cd: npt.ArrayLike, fields: Sequence[Any] | np.ndarray, years: npt.ArrayLike, reference_counts: npt.ArrayLike
) -> np.ndarray:
    """Percentile of CD among papers of the same field, year and reference count.

    Comparing like with like takes out what reference counts and years do to CD: papers with few references are
    "disruptive" by construction, and reference lists have grown.

    Reference counts are compared in bins that start at the numbers of `REFERENCE_BINS`; the result is that of
    `group_percentile`.

    Examples
    --------
    >>> cd_percentile([1.0, 1.0, 0.2, -0.2], ["x"] * 4, [2000] * 4, [0, 0, 7, 8]).tolist()
    [0.5, 0.5, 0.75, 0.25]

    References
    ----------
    Holst et al. (2024), "Dataset artefacts are the hidden drivers of the declining disruptiveness in science".
    Petersen, Arroyave & Pammolli (2023), "The disruption index is biased by citation inflation".
    """
    bins = np.searchsorted(REFERENCE_BINS, np.asarray(reference_counts), side="right").astype(np.int8)
    return group_percentile(cd, fields, np.asarray(years), bins)


def rewired_cd(
    graph: CitationGraph, window: int | None = 5, *, samples: int = 10, seed: int = 0, threads: int | None = None
) -> RewiredCD:
    """z-score of CD against graphs rewired at random that keep every paper's references and citations by year.

    Pairs of citations with the same citing and the same cited year exchange their cited papers, so every paper keeps
    how many papers of each year it cites, and how many of each year cite it.

    There are `samples` rewired graphs, at least 2.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([2, 3, 4, 4, 5, 5], [0, 1, 2, 0, 3, 1], [1990, 1990, 1992, 1992, 1993, 1993])
    >>> result = rewired_cd(graph, samples=50)
    >>> cd_index(graph)[2].item(), bool(result.z[2] < 0)  # consolidates more than chance has it
    (-1.0, True)

    References
    ----------
    Holst et al. (2024) and Park, Leahey & Funk (2023, Methods) compare with rewired networks; Uzzi et al. (2013), S2,
    describes the switching.
    """
    samples = checked_integer(samples, 2, "samples must be an integer of at least 2 (one graph has no spread)")
    observed = cd_index(graph, window, threads=threads)
    count, total, squares = (np.zeros(graph.n_papers) for _ in range(3))
    for rewired in rewired_graphs(graph, samples, seed, threads):
        cd = cd_index(rewired, window, threads=threads)
        defined = ~np.isnan(cd)
        count += defined
        total[defined] += cd[defined]
        squares[defined] += cd[defined] ** 2
    mean = ratio(total, count)
    variance = ratio(squares, count) - mean**2
    sd = np.where(count >= 2, np.sqrt(np.where(variance > 1e-12, variance, 0.0)), np.nan)
    return RewiredCD(ratio(observed - mean, sd), mean, sd)


def rewired_graphs(graph: CitationGraph, samples: int, seed: int = 0, threads: int | None = None):
    """Yield `samples` graphs rewired as `rewired_cd` says."""
    require_papers(graph)
    citing, cited = graph.edges()
    first = int(graph.years.min())
    span = int(graph.years.max()) - first + 1
    cell = (graph.years[citing].astype(np.int64) - first) * span + (graph.years[cited] - first)
    order = np.argsort(cell, kind="stable")
    citing, cited, cell = citing[order], cited[order], cell[order]
    bounds = np.append(np.unique(cell, return_index=True)[1], cell.size)
    begin, end = same_paper(citing, bounds)
    labels = np.zeros(cited.size, np.int32)
    for sample in range(samples):
        switch(citing, cited, labels, bounds, begin, end, SWEEPS, random_state(seed, sample))
        yield CitationGraph.from_edges(citing, cited, graph.years, graph.node_ids, threads=threads)


def cd_interval(
    counts: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike],
    level: float = 0.95,
    *,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence interval of CD by resampling, with replacement, the later papers that it counts (bootstrap).

    Each of the ``n_i + n_j + n_k`` papers is of one of three kinds, so a resample is a multinomial draw.

    Parameters
    ----------
    counts : n_i, n_j, n_k
        From `disruption_counts`.
    level : float in (0, 1)
    samples : int >= 1
    seed : int
        The interval of a paper depends on the seed and its counts only.

    Returns
    -------
    low, high
        NaN where CD is undefined.

    Examples
    --------
    >>> low, high = cd_interval(([6, 600], [2, 200], [2, 200]))
    >>> bool(low[0] < low[1] < 0.4 < high[1] < high[0])  # more papers, narrower interval
    True

    References
    ----------
    Efron (1979), "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95, got {level!r}")
    samples = checked_integer(samples, 1, "samples must be a positive integer")
    table = np.stack([np.asarray(n, np.int64) for n in counts], axis=1)
    kinds, where = np.unique(table, axis=0, return_inverse=True)
    tails = [(1 - level) / 2, (1 + level) / 2]
    bounds = np.full((len(kinds), 2), np.nan)
    for i, kind in enumerate(kinds):
        total = int(kind.sum())
        if total:
            rng = np.random.default_rng([seed, *kind.tolist()])
            draws = rng.multinomial(total, kind / total, size=samples)
            bounds[i] = np.quantile((draws[:, 0] - draws[:, 1]) / total, tails)
    return bounds[where, 0], bounds[where, 1]


def coverage(graph: CitationGraph, reference_counts: npt.ArrayLike) -> np.ndarray:
    """Share of a paper's references that are in the graph: in [0, 1], NaN for a paper without references.

    Parameters
    ----------
    reference_counts : int array-like (N,)
        References that each paper has in truth (OpenAlex: ``referenced_works_count``).

    Raises
    ------
    ValueError
        A wrong length, or a count below the number of references in the graph.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1], [0], [1990, 1991])
    >>> coverage(graph, [0, 4]).tolist()
    [nan, 0.25]
    """
    counts = np.asarray(reference_counts)
    if counts.shape != (graph.n_papers,):
        raise ValueError(f"reference_counts has shape {counts.shape} but the graph has {graph.n_papers} papers")
    present = graph.reference_counts
    if (counts < present).any():
        first = int(np.argmax(counts < present))
        raise ValueError(
            f"reference_counts[{first}] is {counts[first]} but {present[first]} references of that paper are in the "
            "graph"
        )
    return ratio(present, counts)
