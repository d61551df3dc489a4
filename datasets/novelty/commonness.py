"""Commonness of venue pairs: a measure of novelty that needs no null model."""

import numpy as np
import numpy.typing as npt

from ..disruption.cd_index import require_papers
from ..graph.citation_graph import CitationGraph
from ..jit import run_chunks
from .atypicality import pair_percentiles, papers_by_year
from .venue_pairs import VenuePairs, checked_venues, venue_pairs, year_slots


def commonness(graph: CitationGraph, venues: npt.ArrayLike, *, threads: int | None = None) -> np.ndarray:
    """Novelty of a paper as minus the log of the 10th percentile of the commonness of its venue pairs.

    Commonness of a pair in a year is observed over expected, ``N_ij N / (N_i N_j)``: N_ij pairs of references to venues
    i and j in all reference lists of that year, N_i pairs with i in them, N all pairs. Nothing is sampled.

    Parameters and errors are those of `atypicality`.

    Returns
    -------
    float64 array (N,)
        Higher is more novel; NaN with fewer than two references of known venue.

    Examples
    --------
    Two papers cite venues 0 and 1 together; one cites 0 and 2: N = 3, N_0 = 3, N_2 = 1, and 1 * 3 / (3 * 1) = 1.

    >>> graph = CitationGraph.from_edges([3, 3, 4, 4, 5, 5], [0, 1, 0, 1, 0, 2], [1990] * 3 + [1991] * 3)
    >>> (commonness(graph, [0, 1, 2, -1, -1, -1]) + 0.0)[3:].tolist()
    [0.0, 0.0, 0.0]

    References
    ----------
    Lee, Walsh & Wang (2015), "Creativity in scientific teams: unpacking novelty and impact", Research Policy 44(3),
    section 3.2: commonness_ijt = (N_ijt * N_t) / (N_it * N_jt); novelty is -ln of its 10th percentile.
    """
    require_papers(graph)
    numbers = checked_venues(graph, venues)
    result = np.full(graph.n_papers, np.nan)

    def one_year(_: int, papers: np.ndarray) -> None:
        slots = year_slots(graph, numbers, papers)
        pairs = venue_pairs(slots)
        percentiles = pair_percentiles(slots, pairs, _pair_commonness(pairs)[np.newaxis], [0.1])[0]
        result[papers] = -np.log(percentiles[0, 0])

    run_chunks(one_year, papers_by_year(graph), threads)
    return result


def _pair_commonness(pairs: VenuePairs) -> np.ndarray:
    rows, n_venues = pairs.rows, pairs.indptr.size - 1
    between = rows != pairs.columns
    with_venue = np.bincount(rows, pairs.counts, n_venues)
    with_venue += np.bincount(pairs.columns[between], pairs.counts[between], n_venues)
    return pairs.counts * float(pairs.counts.sum()) / (with_venue[rows] * with_venue[pairs.columns])
