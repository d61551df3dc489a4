"""Null networks for atypicality: the reference lists of one year, rewired at random, and how often pairs occur in them.

Both nulls keep how many references each paper makes to each cited year. Every sample draws from its own random stream,
named by seed, citing year and sample, so the result depends on nothing else.
"""

from dataclasses import dataclass

import numpy as np

from ..graph.rewiring import SWEEPS, random_state, same_paper, switch, uniform
from ..jit import kernel
from .venue_pairs import VenuePairs, YearSlots, sort_and_bucket, sorted_slots


@dataclass(frozen=True)
class NullSums:
    """How often each observed pair occurs in null networks, summed over groups of consecutive networks.

    Sums are of differences from the first network, which are small integers, so that an sd of 0 is exactly 0.
    """

    first: np.ndarray
    """Counts in the first network, int64 (Q,)."""
    total: np.ndarray
    """Sums of (count - first) over the networks of a group, int64 (G, Q)."""
    squares: np.ndarray
    """Sums of the squares of that, int64 (G, Q)."""
    networks: np.ndarray
    """Networks of each group, int64 (G,)."""

    def moments(self, groups: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd (ddof 0) over the networks of these groups; float64 arrays (Q,). No networks give an sd of 0."""
        total, squares = self.total[groups].sum(axis=0), self.squares[groups].sum(axis=0)
        samples = max(1, int(self.networks[groups].sum()))
        return self.first + total / samples, np.sqrt(samples * squares - total * total) / samples


def null_sums(
    slots: YearSlots, pairs: VenuePairs, null: str, samples: int, seed: int, year: int, groups: int
) -> NullSums:
    """Count the observed pairs in `samples` null networks (see `null_networks`), in `groups` groups of equal size."""
    first = np.zeros(pairs.columns.size, np.int64)
    total, squares = np.zeros((2, groups, first.size), np.int64)
    group = np.arange(samples) * groups // samples
    ordered, ends, heads, bucket = sorted_slots(slots)
    dense = np.zeros(slots.venues.size, np.int32)
    for sample, network in enumerate(null_networks(slots, null, samples, seed, year)):
        sort_and_bucket(slots.indptr, network, ordered, heads, bucket)
        g = group[sample]
        rows = (pairs.indptr, pairs.columns, sample == 0, first, total[g], squares[g])
        _add_counts(ordered, ends, heads, bucket, dense, *rows)
    return NullSums(first, total, squares, np.bincount(group, minlength=groups))


def null_networks(slots: YearSlots, null: str, samples: int, seed: int, year: int):
    """Yield the venue of every slot in each null network; int32 array (M,), overwritten by the next.

    ``shuffle`` permutes venues inside a cell. ``switch`` exchanges the cited papers of two references of a cell, unless
    a paper would then cite itself or another twice; it keeps how often each paper is cited.
    """
    by_cell = np.argsort(slots.cell, kind="stable").astype(np.int32)
    bounds = np.searchsorted(slots.cell[by_cell], np.arange(slots.cells.size + 1))
    sampled = np.empty_like(slots.venue)
    if null == "shuffle":
        values = np.empty_like(slots.venue)
        for sample in range(samples):
            _shuffle(slots.venue, by_cell, bounds, random_state(seed, year, sample), values, sampled)
            yield sampled
        return
    paper = np.repeat(slots.papers, np.diff(slots.indptr))[by_cell]
    first, stop = same_paper(paper, bounds)
    cited, venue = slots.cited[by_cell], slots.venue[by_cell]
    for sample in range(samples):
        switch(paper, cited, venue, bounds, first, stop, SWEEPS, random_state(seed, year, sample))
        sampled[by_cell] = venue
        yield sampled


def expected_counts(slots: YearSlots, pairs: VenuePairs) -> np.ndarray:
    """Exact mean under `shuffle` of how often each observed pair occurs; float64 array (Q,).

    With ``m_c`` slots in cell c, ``k_cj`` of them at venue j and ``S_cd`` pairs of slots of one paper in cells c and d,
    a pair of slots in two cells is {i, j} with probability ``(k_ci k_dj + k_cj k_di) / (m_c m_d)``, and one inside a
    cell with ``2 k_ci k_cj / (m_c (m_c - 1))``, or ``k_ci (k_ci - 1) / (m_c (m_c - 1))`` where i = j.
    """
    n_cells = slots.cells.size
    together = np.zeros((n_cells, n_cells))
    _count_cells(slots.indptr, slots.cell, together)
    size = np.bincount(slots.cell, minlength=n_cells).astype(np.float64)
    weight = together / np.outer(size, size)
    inside = np.diag(together) / np.maximum(size * (size - 1), 1)
    np.fill_diagonal(weight, 2 * inside)
    k = np.zeros((slots.venues.size, n_cells))
    np.add.at(k, (slots.venue, slots.cell), 1.0)
    k_weight = np.zeros_like(k)
    _multiply(k, weight, k_weight)
    mean = np.empty(pairs.columns.size)
    _expected(k, k_weight, inside, pairs.indptr, pairs.columns, mean)
    return mean


@kernel
def _shuffle(venue, by_cell, bounds, state, values, sampled):
    for k in range(by_cell.size):
        values[k] = venue[by_cell[k]]
    for c in range(bounds.size - 1):
        low = bounds[c]
        for k in range(bounds[c + 1] - 1, low, -1):
            j = low + int(uniform(state) * (k - low + 1))
            values[k], values[j] = values[j], values[k]
    for k in range(by_cell.size):
        sampled[by_cell[k]] = values[k]


@kernel
def _add_counts(ordered, ends, heads, bucket, dense, indptr, columns, is_first, first, total, squares):
    for v in range(heads.size - 1):
        if indptr[v] == indptr[v + 1]:
            continue
        visits = 0
        for b in range(heads[v], heads[v + 1]):
            s = bucket[b]
            visits += ends[s] - s - 1
            for i in range(s + 1, ends[s]):
                dense[ordered[i]] += 1
        for q in range(indptr[v], indptr[v + 1]):
            if is_first:
                first[q] = dense[columns[q]]
            n = dense[columns[q]] - first[q]
            total[q] += n
            squares[q] += n * n
        if visits > dense.size // 16:
            dense[v:] = 0
        else:
            for b in range(heads[v], heads[v + 1]):
                s = bucket[b]
                for i in range(s + 1, ends[s]):
                    dense[ordered[i]] = 0


@kernel
def _count_cells(indptr, cell, together):
    for k in range(indptr.size - 1):
        for s in range(indptr[k], indptr[k + 1]):
            for i in range(s + 1, indptr[k + 1]):
                together[cell[s], cell[i]] += 1
                if cell[s] != cell[i]:
                    together[cell[i], cell[s]] += 1


@kernel
def _multiply(a, b, product):
    """Add ``a @ b`` to `product`; BLAS would round differently from run to run."""
    for i in range(a.shape[0]):
        for c in range(a.shape[1]):
            if a[i, c] != 0:
                for d in range(b.shape[1]):
                    product[i, d] += a[i, c] * b[c, d]


@kernel
def _expected(k, k_weight, inside, indptr, columns, mean):
    for i in range(indptr.size - 1):
        for q in range(indptr[i], indptr[i + 1]):
            j = columns[q]
            value = 0.0
            for c in range(k.shape[1]):
                value += k_weight[i, c] * k[j, c]
            if i == j:
                value /= 2
                for c in range(k.shape[1]):
                    value -= inside[c] * k[i, c]
            mean[q] = value
