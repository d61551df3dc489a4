"""Relatives of the CD index: mCD, DI without n_k, DI_l, dependence, and the CD index year by year.

Parameters and errors that are not stated are those of `disruption_counts`. Every result is a float64 array (N,) unless
its docstring says otherwise.
"""

import numpy as np

from ..disk_arrays import new_array
from ..graph.citation_graph import CitationGraph
from .cd_index import cd_of_counts, checked_integer, counts_of_papers, disruption_counts, in_parts, ratio
from .counting import Walk, count_by_year, count_shared
from .year_ranks import Scratch


def mcd_index(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None, memory: int | None = None
) -> np.ndarray:
    """CD index weighted by impact: CD times the citations inside the window, ``CD * (n_i + n_j)``; NaN where CD is.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1, 1, 2, 3], [0, 0, 1, 1], [1990, 1991, 1993, 1994])
    >>> mcd_index(graph)[1].item()  # two citations, both of paper 1 only
    2.0

    Notes
    -----
    The PyPI package `cdindex` multiplies by all citations up to the end of the window instead, those of the same and of
    earlier years included, although its CD leaves them out.

    References
    ----------
    Funk & Owen-Smith (2017), "A dynamic network measure of technological change", Management Science 63(3):
    mCD_t = m_t / n_t * sum_i (f_it - 2 f_it b_it) / w_it with w = 1; m_t counts citations of the focal work only.
    """
    n_i, n_j, _ = counts = disruption_counts(graph, window, threads=threads, memory=memory)
    return cd_of_counts(counts) * (n_i + n_j)


def di_nok(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None, memory: int | None = None
) -> np.ndarray:
    """Disruption index without n_k: ``(n_i - n_j) / (n_i + n_j)``, in [-1, 1]; NaN without citations in the window.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1, 2, 2, 3], [0, 1, 0, 0], [1990, 1991, 1993, 1994])
    >>> di_nok(graph)[1].item()  # with n_k, paper 3, it would be -0.5
    -1.0

    References
    ----------
    Bornmann, Devarakonda, Tekles & Chacko (2020), "Are disruption index indicators convergently valid?", Quantitative
    Science Studies 1(3), DI_1^nok; Wu & Yan (2019), "Solo citations, duet citations, and prelude citations".
    """
    n_i, n_j, _ = disruption_counts(graph, window, threads=threads, memory=memory)
    return ratio(n_i - n_j, n_i + n_j)


def di_l(
    graph: CitationGraph,
    least: int = 5,
    window: int | None = 5,
    *,
    threads: int | None = None,
    memory: int | None = None,
) -> np.ndarray:
    """Disruption index with a threshold: ``(n_i - n_j^l) / (n_i + n_j^l + n_k)``, in [-1, 1]; NaN where that is 0 / 0.

    n_j^l counts the papers that cite the focal paper and at least `least` (1 or more) of its references; those that
    cite it and fewer of its references count nowhere, n_i included. ``di_l(graph, 1)`` is the CD index.

    Examples
    --------
    Paper 3 cites the focal paper 2 and one of its two references, paper 4 both.

    >>> graph = CitationGraph.from_edges([2, 2, 3, 3, 4, 4, 4], [0, 1, 2, 0, 2, 0, 1], [1990, 1990, 1992, 1993, 1994])
    >>> di_l(graph, 1)[2].item(), di_l(graph, 2)[2].item(), di_l(graph, 3)[2].item()
    (-1.0, -1.0, nan)

    Notes
    -----
    The package ``novelpy`` computes its DI5 (and DI1nok, and its "DeIn", here `dependence`) in the same way; of the
    article only the abstract was at hand when this was checked.

    References
    ----------
    Bornmann, Devarakonda, Tekles & Chacko (2020), "Are disruption index indicators convergently valid?", Quantitative
    Science Studies 1(3), 1242-1259, DI_l.
    """
    least = checked_integer(least, 1, "least must be a positive number of shared references")
    n_i, _, n_k, n_least, _ = _shared_counts(graph, least, window, threads, memory)
    return cd_of_counts((n_i, n_least, n_k))


def dependence(
    graph: CitationGraph, window: int | None = 5, *, threads: int | None = None, memory: int | None = None
) -> np.ndarray:
    """DEP: how many of the focal paper's references a paper that cites it cites as well, on average.

    At least 0; NaN without citations in the window.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([2, 2, 3, 3, 4, 4, 4], [0, 1, 2, 0, 2, 0, 1], [1990, 1990, 1992, 1993, 1994])
    >>> dependence(graph)[2].item()  # one shared reference and two
    1.5

    References
    ----------
    Bu, Waltman & Huang (2021), "A multidimensional framework for characterizing the citation impact of scientific
    publications", Quantitative Science Studies 2(1), 155-183, on dependence; called DEP by Bornmann et al. (2020).
    """
    n_i, n_j, _, _, shared = _shared_counts(graph, 1, window, threads, memory)
    return in_parts(n_i.size, lambda part: ratio(shared[part], n_i[part] + n_j[part]))


def cd_trajectory(
    graph: CitationGraph, years: int = 10, *, threads: int | None = None, memory: int | None = None
) -> np.ndarray:
    """CD_1, CD_2, ... CD_years of every paper, in one pass over the graph.

    Returns
    -------
    float64 array (N, years)
        Column w - 1 is ``cd_index(graph, w)``.

    Examples
    --------
    >>> graph = CitationGraph.from_edges([1, 2, 3, 3], [0, 1, 1, 0], [1990, 1991, 1993, 1994])
    >>> cd_trajectory(graph, 4)[1].tolist()
    [nan, 1.0, 0.0, 0.0]

    References
    ----------
    CD_t as a function of t: Funk & Owen-Smith (2017), Management Science 63(3).
    """
    years = checked_integer(years, 1, "years must be a positive integer (for no window there is cd_index)")
    counts = counts_of_papers(count_by_year, graph, years, threads, memory, 3, years)
    np.cumsum(counts, axis=2, out=counts)
    trajectory = new_array(counts.shape[1:], np.float64, on_disk=memory is not None)
    for year in range(years):
        trajectory[:, year] = cd_of_counts(list(counts[:, :, year]))
    return trajectory


def _shared_counts(
    graph: CitationGraph, least: int, window: int | None, threads: int | None, memory: int | None
) -> np.ndarray:
    """See `count_shared`."""

    def kernel(papers: np.ndarray, walk: Walk, scratch: Scratch, counts: np.ndarray) -> None:
        count_shared(papers, walk, scratch, counts, least, np.empty(scratch[0].size, np.int32))

    return counts_of_papers(kernel, graph, window, threads, memory, 5)
