"""Citation networks by seed, of any size, with the features that make labels slow: heavy tails, recency, triads."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=False, nogil=True)
def _draw(state):
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=False, nogil=True)
def _grow(starts, indptr, cited, seed):
    state = np.array([seed], np.uint64)
    n_years = starts.size - 1
    written = 0
    for year in range(n_years):
        for paper in range(starts[year], starts[year + 1]):
            first = written
            for _ in range(indptr[paper + 1] - indptr[paper]):
                u = _draw(state)
                target = -1
                if u < 0.4 and written > first:
                    friend = cited[first + int(_draw(state) * (written - first))]
                    degree = indptr[friend + 1] - indptr[friend]
                    if degree > 0 and friend < paper:
                        target = cited[indptr[friend] + int(_draw(state) * degree)]
                elif u < 0.58 and first > 0:
                    target = cited[int(first * (1.0 - 0.5 * _draw(state) ** 2))]
                if target < 0:
                    age = min(year, int(-7.0 * np.log(1.0 - _draw(state))))
                    low, high = starts[year - age], starts[year - age + 1]
                    target = low + int(_draw(state) * (high - low))
                cited[written] = target
                written += 1


def random_graph(n_papers: int, n_citations: int, seed: int = 0, n_years: int = 40) -> tuple[np.ndarray, ...]:
    """Edges and years of a random citation network.

    The number of papers grows by 5 % a year. A reference is, in turn, a reference of a paper already cited (40 %), a
    target of an earlier citation (18 %: preferential attachment) or a paper of an age drawn from an exponential with
    mean 7 years. The duplicates, self-citations and citations of the same year that this makes stay in.

    Parameters
    ----------
    n_papers, n_citations : int
    seed : int
    n_years : int

    Returns
    -------
    citing, cited : int32 arrays (E,)
    years : int16 array (N,)
    """
    rng = np.random.default_rng(seed)
    weights = 1.05 ** np.arange(n_years)
    cuts = np.concatenate(([0.0], np.cumsum(weights / weights.sum())))
    starts = np.round(cuts * n_papers).astype(np.int64)
    share = rng.lognormal(0.0, 0.6, n_papers)
    share[: starts[1]] *= 0.2
    bounds = np.concatenate(([0.0], np.cumsum(share)))
    indptr = np.round(bounds / bounds[-1] * n_citations).astype(np.int64)
    del share, bounds
    cited = np.empty(n_citations, np.int32)
    _grow(starts, indptr, cited, seed)
    citing = np.repeat(np.arange(n_papers, dtype=np.int32), np.diff(indptr))
    years = np.repeat(np.arange(1984, 1984 + n_years, dtype=np.int16), np.diff(starts))
    return citing, cited, years


@njit(cache=False, nogil=True)
def _inherit(indptr, cited, u, venue):
    for paper in range(indptr.size - 1):
        degree = indptr[paper + 1] - indptr[paper]
        if u[paper] < 0.6 and degree > 0:
            earlier = cited[indptr[paper] + int(u[paper] / 0.6 * degree)]
            if earlier < paper:
                venue[paper] = venue[earlier]


def random_venues(
    citing: np.ndarray, cited: np.ndarray, n_papers: int, n_venues: int = 5000, seed: int = 5
) -> np.ndarray:
    """Venues for the papers of `random_graph`: the venue of one of its references (60 %), or one drawn by rank^-0.8.

    Parameters
    ----------
    citing, cited : int arrays (E,)
        Citing papers ascending.
    n_papers, n_venues, seed : int

    Returns
    -------
    int64 array (N,)
    """
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, n_venues + 1) ** 0.8
    venue = rng.choice(n_venues, size=n_papers, p=weight / weight.sum())
    indptr = np.searchsorted(citing, np.arange(n_papers + 1))
    _inherit(indptr, cited, rng.random(n_papers), venue)
    return venue
