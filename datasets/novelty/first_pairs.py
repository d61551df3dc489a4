"""First-time pairs of venues, weighted by how hard they were to make: novelty against what was done before."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from ..disruption.cd_index import checked_integer, require_papers
from ..graph.citation_graph import CitationGraph
from ..jit import kernel
from .atypicality import papers_by_year
from .venue_pairs import checked_venues, venue_pairs, year_slots


class FirstPairs(NamedTuple):
    """Novelty by first-time venue pairs: two arrays (N,)."""

    novelty: np.ndarray
    """float64: sum of 1 - cosine over a paper's new pairs; 0 without any."""
    n_new: np.ndarray
    """int64: distinct new pairs of the paper."""


def first_pairs(
    graph: CitationGraph, venues: npt.ArrayLike, *, history: int = 3, reuse: int = 0, skip_least_cited: float = 0.0
) -> FirstPairs:
    """Pairs of venues that no paper of an earlier year cites together, each weighted by ``1 - cos_ij``.

    cos_ij is the cosine of the two venues' co-citation profiles over the `history` years before: hard to make is a pair
    whose venues have been cited together with different others. Papers of the same year share a first. The first year
    of the data has no past, so its pairs are all new: leave it out when you compare years.

    Parameters
    ----------
    graph, venues
        As in `atypicality`, and so are the errors.
    history : int >= 1
        Years before publication that make up the profiles.
    reuse : int >= 0
        Keep only new pairs that occur again within so many later years; 0 keeps all. The paper uses 3.
        This looks at later papers: such a label is an outcome, not something known at publication.
    skip_least_cited : float in [0, 1)
        Leave out this share of the venues, those with the fewest references in the history years (ties with the last
        of them go too, and so do venues without any). The paper uses 0.5.

    Examples
    --------
    In 1991 venues 0 and 1 are cited together, and 1 and 2. In 1992 a paper cites 0 and 2, for the first time; both were
    cited with 1 before, so their profiles are the same and the pair was easy to make.

    >>> years = [1990] * 4 + [1991, 1991, 1992, 1992]
    >>> graph = CitationGraph.from_edges([4, 4, 5, 5, 6, 6, 7, 7], [0, 1, 1, 2, 0, 2, 0, 3], years)
    >>> result = first_pairs(graph, [0, 1, 2, 3, -1, -1, -1, -1])
    >>> result.novelty[6:].round(6).tolist(), result.n_new[6:].tolist()
    ([0.0, 1.0], [1, 1])

    Notes
    -----
    Reference pairs are counted in the profiles: a paper that cites venue i three times and venue j twice adds 6 to
    their entry of the co-citation matrix. A paper's new pairs are distinct pairs of venues, each counted once however
    many references make it.

    References
    ----------
    Wang, Veugelers & Stephan (2017), "Bias against novelty in science: a cautionary tale for users of bibliometric
    indicators", Research Policy 46(8), section 2: Novelty = sum over new journal pairs of (1 - COS_ij).
    """
    require_papers(graph)
    array = checked_venues(graph, venues)
    for name, value, least in (("history", history, 1), ("reuse", reuse, 0)):
        checked_integer(value, least, f"{name} must be an integer of at least {least} (years)")
    if not 0 <= skip_least_cited < 1:
        raise ValueError(f"skip_least_cited must be in [0, 1), got {skip_least_cited!r}")
    n_venues = int(array.max(initial=-1)) + 1  # at most N, so that a key and a year fit into one int64
    years = sorted(papers_by_year(graph), key=lambda item: item[0])
    pairs = {year: _pairs_of_year(graph, array, papers, n_venues) for year, papers in years}
    first = _first_years(pairs)
    novelty, n_new = np.zeros(graph.n_papers), np.zeros(graph.n_papers, np.int64)
    for year, papers in years:
        keys = first[year]
        past = [pairs[y] for y in range(year - history, year) if y in pairs]
        if reuse:
            later = [pairs[y].keys for y in range(year + 1, year + reuse + 1) if y in pairs]
            keys = keys[np.isin(keys, np.concatenate(later))] if later else keys[:0]
        keys = _without_least_cited(keys, past, n_venues, skip_least_cited)
        if keys.size:
            weight = 1.0 - _cosines(keys, past, n_venues)
            slots = year_slots(graph, array, papers)
            _add_new(slots.papers, slots.indptr, slots.venues[slots.venue], n_venues, keys, weight, novelty, n_new)
    return FirstPairs(novelty, n_new)


class _Year(NamedTuple):
    """What the papers of a year cite: pairs of distinct venues as ascending keys ``i * n_venues + j``, i < j, and how
    often each occurs; and every venue with its number of references."""

    keys: np.ndarray
    counts: np.ndarray
    venues: np.ndarray
    references: np.ndarray


def _pairs_of_year(graph: CitationGraph, venues: np.ndarray, papers: np.ndarray, n_venues: int) -> _Year:
    slots = year_slots(graph, venues, papers)
    pairs = venue_pairs(slots)
    between = pairs.rows != pairs.columns
    keys = slots.venues[pairs.rows[between]] * n_venues + slots.venues[pairs.columns[between]]
    return _Year(keys, pairs.counts[between], slots.venues, np.bincount(slots.venue))


def _first_years(pairs: dict[int, _Year]) -> dict[int, np.ndarray]:
    """The keys that each year has first, ascending; `pairs` is in the order of the years."""
    # One number for key and year: sorting plain numbers is several times faster than sorting by index.
    packed = np.sort(np.concatenate([of.keys * len(pairs) + k for k, of in enumerate(pairs.values())]))
    keys, year = np.divmod(packed, len(pairs))
    first = np.append(True, keys[1:] != keys[:-1])[: keys.size]
    keys, year = keys[first], year[first]
    return {y: keys[year == k] for k, y in enumerate(pairs)}


def _without_least_cited(keys: np.ndarray, past: list[_Year], n_venues: int, share: float) -> np.ndarray:
    if share == 0 or not keys.size:
        return keys
    cited = np.zeros(n_venues)
    for year in past:
        cited[year.venues] += year.references
    present = cited[cited > 0]
    if not present.size:
        return keys[:0]
    enough = cited > np.quantile(present, share, method="inverted_cdf")
    return keys[enough[keys // n_venues] & enough[keys % n_venues]]


def _cosines(keys: np.ndarray, past: list[_Year], n_venues: int) -> np.ndarray:
    """Cosine of the co-citation profiles of the two venues of each key; 0 where a venue has no past."""
    if not past:
        return np.zeros(keys.size)
    shape = (n_venues, n_venues)
    upper = csr_array(shape)
    for year in past:
        indptr = np.searchsorted(year.keys, np.arange(n_venues + 1) * n_venues)
        upper = upper + csr_array((year.counts.astype(np.float64), year.keys % n_venues, indptr), shape=shape)
    profiles = csr_array(upper + upper.T)
    cosine = np.zeros(keys.size)
    _sparse_cosines(keys, n_venues, profiles.indptr, profiles.indices, profiles.data, np.zeros(n_venues), cosine)
    return cosine


@kernel
def _sparse_cosines(keys, n_venues, indptr, columns, values, dense, cosine):
    current = -1
    norm_i = 0.0
    for k in range(keys.size):
        i, j = keys[k] // n_venues, keys[k] % n_venues
        if i != current:
            if current >= 0:
                for e in range(indptr[current], indptr[current + 1]):
                    dense[columns[e]] = 0.0
            norm_i = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                dense[columns[e]] = values[e]
                norm_i += values[e] * values[e]
            current = i
        dot, norm_j = 0.0, 0.0
        for e in range(indptr[j], indptr[j + 1]):
            dot += dense[columns[e]] * values[e]
            norm_j += values[e] * values[e]
        if norm_i > 0 and norm_j > 0:
            cosine[k] = min(1.0, dot / np.sqrt(norm_i * norm_j))


@kernel
def _add_new(papers, indptr, venue, n_venues, keys, weight, novelty, n_new):
    for k in range(papers.size):
        own = np.unique(venue[indptr[k] : indptr[k + 1]])
        for a in range(own.size):
            for b in range(a + 1, own.size):
                key = own[a] * n_venues + own[b]
                i = np.searchsorted(keys, key)
                if i < keys.size and keys[i] == key:
                    novelty[papers[k]] += weight[i]
                    n_new[papers[k]] += 1
