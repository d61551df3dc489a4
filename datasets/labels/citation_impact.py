"""Citation impact: percentiles within field and year, hit papers, and sleeping beauties."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..disruption.cd_index import checked_integer, require_papers
from ..graph.citation_graph import CitationGraph
from ..jit import kernel, run_chunks
from ..paper import HIT_LABELS, is_hit
from ..percentiles import share_lower

CHUNK = 65_536


def citations_in_window(graph: CitationGraph, window: int) -> np.ndarray:
    """Citations from the year of publication to `window` years later; int32 (N,).

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1, 2, 3], [0, 0, 0], [1990, 1990, 1992, 1999])
    >>> citations_in_window(graph, 2)[0].item()
    2
    """
    counts = np.zeros(graph.n_papers, np.int32)
    arrays = (graph.years, graph.cit_indptr, graph.cit_indices)
    run_chunks(lambda low, high: _count_in_window(low, high, *arrays, window, counts), _pieces(graph))
    return counts


def citation_percentile(
    graph: CitationGraph,
    fields: Sequence[Any] | np.ndarray,
    window: int = 5,
    last_complete_year: int | None = None,
) -> np.ndarray:
    """Share of the papers of the same field and year, itself included, that are cited less often in their first years.

    Parameters
    ----------
    fields : array-like (N,)
    window : int
        Citations count from the year of publication to `window` years later.
    last_complete_year : int, optional
        Papers whose window ends after it have no percentile. None: every window counts as closed.

    Returns
    -------
    float64 array (N,)
        In [0, 1); papers with equal counts share the value; NaN where the window is open.

    Raises `ValueError` for a bad window, fields of the wrong length, a graph without papers.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([3, 4, 4], [0, 0, 1], [1990, 1990, 1990, 1991, 1992])
    >>> citation_percentile(graph, ["physics"] * 5)[:3].round(3).tolist()
    [0.667, 0.333, 0.0]

    References
    ----------
    Wang, Song & Barabasi (2013), "Quantifying long-term scientific impact", Science 342 (c_5).
    Waltman & Schreiber (2013), "On the calculation of percentile-based bibliometric indicators", JASIST 64(2): papers
    with ties fill an interval of the distribution; this is its lower end.
    """
    require_papers(graph)
    window = checked_integer(window, 1, "window must be a positive number of years (ages have to be the same)")
    shares = share_lower(citations_in_window(graph, window), fields, graph.years)
    if last_complete_year is not None:
        shares[graph.years.astype(np.int64) + window > last_complete_year] = np.nan
    return shares


def hit_labels(citation_percentiles: npt.ArrayLike) -> np.ndarray:
    """``hit`` or ``ordinary`` by the rule `is_hit`, str array (N,); "" where the percentile is NaN.

    Examples
    --------
    >>> hit_labels([0.95, 0.94, float("nan")]).tolist()
    ['hit', 'ordinary', '']

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), Science 342: a hit paper is in the upper 5 % by citations of its year.
    """
    shares = np.asarray(citation_percentiles, np.float64)
    return np.where(np.isnan(shares), "", np.where(is_hit(shares), *HIT_LABELS))


def sleeping_beauty(graph: CitationGraph) -> tuple[np.ndarray, np.ndarray]:
    """Sleeping Beauty coefficient B and awakening year: was a paper ignored for long and then discovered?

    With c_t citations t years after publication and t_m the (first) year of their maximum, B sums, for t = 0 ... t_m,
    ``((c_tm - c_0) / t_m * t + c_0 - c_t) / max(1, c_t)``: how far the paper lies below a straight line to its peak.
    The paper awakes in the year that lies farthest below that line.

    Returns
    -------
    coefficient : float64 array (N,)
        0 for a paper whose peak is its first year, or without citations.
    awakening : int64 array (N,)
        Years from publication; -1 without citations.

    Raises `ValueError` for a graph without papers.

    Examples
    --------
    Nothing for two years, then four citations: the line is 0, 4/3, 8/3, 4.

    >>> graph = CitationGraph.from_edges([1, 2, 3, 4], [0, 0, 0, 0], [1990] + [1993] * 4)
    >>> b, awake = sleeping_beauty(graph)
    >>> b[0].item(), awake[0].item()
    (4.0, 2)

    References
    ----------
    Ke, Ferrara, Radicchi & Flammini (2015), "Defining and identifying Sleeping Beauties in science", PNAS 112(24),
    eq. 2 (B) and eq. 3 (awakening time).
    """
    require_papers(graph)
    coefficient, awakening = np.zeros(graph.n_papers), np.full(graph.n_papers, -1, np.int64)
    span = int(graph.years.max()) - int(graph.years.min()) + 1
    arrays, out = (graph.years, graph.cit_indptr, graph.cit_indices), (coefficient, awakening)
    run_chunks(lambda low, high: _beauty(low, high, *arrays, np.zeros(span, np.int64), *out), _pieces(graph))
    return out


def _pieces(graph: CitationGraph) -> list[tuple[int, int]]:
    return [(low, min(low + CHUNK, graph.n_papers)) for low in range(0, graph.n_papers, CHUNK)]


@kernel
def _count_in_window(low, high, years, cit_indptr, cit_indices, window, counts):
    for p in range(low, high):
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            age = years[cit_indices[i]] - years[p]
            counts[p] += 0 <= age <= window


@kernel
def _beauty(low, high, years, cit_indptr, cit_indices, by_age, coefficient, awakening):
    for p in range(low, high):
        by_age[:] = 0
        peak = -1
        for i in range(cit_indptr[p], cit_indptr[p + 1]):
            age = years[cit_indices[i]] - years[p]
            if age >= 0:
                by_age[age] += 1
        for age in range(by_age.size):
            if by_age[age] > 0 and (peak < 0 or by_age[age] > by_age[peak]):
                peak = age
        if peak < 0:
            continue
        awakening[p] = 0
        if peak == 0:
            continue
        slope = (by_age[peak] - by_age[0]) / peak
        farthest = -1.0
        for age in range(peak + 1):
            distance = slope * age + by_age[0] - by_age[age]
            coefficient[p] += distance / max(1, by_age[age])
            if abs(distance) > farthest + 1e-12:
                farthest = abs(distance)
                awakening[p] = age
