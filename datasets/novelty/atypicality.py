"""Atypicality: are the venues that a paper cites together cited together more often, or less, than by chance?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import hadamard

from ..disk_arrays import new_array
from ..disruption.cd_index import checked_integer, ratio, require_papers
from ..errors import BadInput
from ..graph.citation_graph import CitationGraph
from ..graph.csr import year_order
from ..jit import kernel, run_chunks, thread_count
from .null_models import expected_counts, null_sums
from .venue_pairs import VenuePairs, YearSlots, checked_venues, venue_pairs, year_slots

DEFAULT_SAMPLES = {"shuffle": 400, "switch": 500}
# The rows of a Hadamard matrix split eight groups of null networks into two halves so that any two groups are as often
# in one half as apart: seven halves, and then their complements.
GROUPS = 8
HALVES = np.concatenate([hadamard(GROUPS)[1:] > 0, hadamard(GROUPS)[1:] < 0])


@dataclass(frozen=True, eq=False)
class Atypicality(Sequence[np.ndarray]):
    """What `atypicality` returns; a sequence of ``z10, z_median, n_pairs``."""

    z10: np.ndarray
    """10th percentile of the z-scores of a paper's venue pairs, float64 (N,); NaN with fewer than two references of
    known venue, or where every pair is left out."""
    z_median: np.ndarray
    """Their median, float64 (N,)."""
    n_pairs: np.ndarray
    """Pairs that these are taken over, int64 (N,)."""
    n_left_out: np.ndarray
    """Pairs without a z-score, because the null networks all have them equally often (sd 0), int64 (N,)."""
    halves: np.ndarray
    """z10 and z_median from halves of the null networks only, float32 (14, 2, N): 7 balanced halves, then their 7
    complements. A half differs from the whole by as much as the whole differs from infinitely many networks, in
    expectation. NaN where a half gives no score."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return (self.z10, self.z_median, self.n_pairs)[index]

    @classmethod
    def of_years(
        cls, n_papers: int, years: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]], on_disk: bool = False
    ) -> Self:
        """Combine what `atypicality_of_year` returned: ``(papers, z, n)`` for every year, in any order."""
        whole = cls.undefined(n_papers, on_disk)
        for papers, z, n in years:
            whole.put(papers, z, n)
        return whole

    @classmethod
    def undefined(cls, n_papers: int, on_disk: bool = False) -> Self:
        """Of papers without pairs, to be filled by `put`; with `on_disk` the arrays lie in unnamed files."""
        z, n = new_array((2, n_papers), np.float64, on_disk), new_array((2, n_papers), np.int64, on_disk)
        halves = new_array((len(HALVES), 2, n_papers), np.float32, on_disk)
        for scores in (z, *halves):
            scores[:] = np.nan
        return cls(z[0], z[1], n[0], n[1], halves)

    def put(self, papers: np.ndarray, z: np.ndarray, n: np.ndarray) -> None:
        """Fill in what `atypicality_of_year` returned for the papers of one year."""
        self.z10[papers], self.z_median[papers] = z[0]
        self.n_pairs[papers], self.n_left_out[papers] = n
        self.halves[:, :, papers] = z[1:]


def atypicality(
    graph: CitationGraph,
    venues: npt.ArrayLike,
    *,
    null: str = "shuffle",
    samples: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | None = None,
) -> Atypicality:
    """z-scores of the venue pairs that each paper cites, against rewired reference lists of the same year.

    For every pair of venues cited together by papers of a year, z = (observed - mean) / sd over null networks that keep
    how many references each paper makes to each year. A paper's pairs are all pairs of its references (a multiset: the
    same pair of venues counts as often as references make it, a venue with itself included).

    Parameters
    ----------
    graph : CitationGraph
    venues : int array-like (N,)
        Venue of each paper, -1 where unknown. References of unknown venue take no part.
    null : {"shuffle", "switch"}
        ``shuffle`` permutes cited venues inside a (citing year, cited year) cell; its mean is exact and only the sd is
        sampled. ``switch`` exchanges cited papers between references of a cell and keeps in-degrees.
    samples : int, optional
        Null networks. The default makes two seeds agree to a Spearman correlation of 0.99; see benchmarks/README.md.
    seed : int
    threads : int, optional
        The result does not depend on it.
    memory : int, optional
        Bytes, beside the graph and the venues, for the citing years that are computed at a time, one for each thread.
        The pairs of a year that need more are counted in parts, each in the same null networks, drawn anew. Their
        scores and the results, 144 bytes a paper, lie in files of the system's temporary folder. The result does not
        depend on it.

    Raises
    ------
    ValueError
        Venues of the wrong length or type, an unknown null, fewer than 2 samples, a graph without papers, too little
        memory.

    Examples
    --------
    Papers 8 and 9 cite within one of two circles of venues, 10 and 11 across them.

    >>> years = [2000] * 8 + [2001] * 4
    >>> citing = np.repeat([8, 9, 10, 11], 2)
    >>> graph = CitationGraph.from_edges(citing, [0, 1, 2, 3, 4, 6, 5, 7], years)
    >>> result = atypicality(graph, [0, 0, 1, 1, 0, 0, 1, 1] + [-1] * 4)
    >>> bool(result.z_median[8] > result.z_median[10]), result.n_pairs[8:].tolist()
    (True, [1, 1, 1, 1])

    Notes
    -----
    Halves of the sample measure its error (balanced half-samples): with a statistic that has variance v / S over S
    networks, the S / 2 of a half deviate from all S by a variance of 2 v / S - v / S = v / S. Under ``shuffle`` this is
    the error of the sd alone, because the mean is exact.

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), "Atypical combinations and scientific impact", Science 342, and its
    supplement S2 (the null model).
    McCarthy (1969), "Pseudo-replication: half samples", Review of the International Statistical Institute 37(3).
    """
    venues, samples, years = checked_request(graph, venues, null, samples, seed)
    share = None if memory is None else memory // thread_count(threads)
    whole = Atypicality.undefined(graph.n_papers, on_disk=memory is not None)

    def one_year(year: int, papers: np.ndarray) -> None:
        whole.put(papers, *atypicality_of_year(graph, venues, year, papers, null, samples, seed, share))

    run_chunks(one_year, years, threads)
    return whole


def checked_request(
    graph: CitationGraph, venues: npt.ArrayLike, null: str, samples: int | None, seed: int
) -> tuple[np.ndarray, int, list[tuple[int, np.ndarray]]]:
    """Checked venues, number of samples, and ``(year, papers)`` with the longest work first."""
    require_papers(graph)
    array = checked_venues(graph, venues)
    if null not in DEFAULT_SAMPLES:
        raise ValueError(f"null must be one of {', '.join(DEFAULT_SAMPLES)}, got {null!r}")
    samples = DEFAULT_SAMPLES[null] if samples is None else samples
    samples = checked_integer(samples, 2, "samples must be an integer of at least 2 (one network has no spread)")
    checked_integer(seed, 0, "seed must be a non-negative integer")
    return array, samples, papers_by_year(graph)


def papers_by_year(graph: CitationGraph) -> list[tuple[int, np.ndarray]]:
    """``(year, papers)`` for every year that has papers, the year with the most references first."""
    order = year_order(graph.years)
    cuts = np.flatnonzero(np.diff(graph.years[order])) + 1
    years = [(int(graph.years[papers[0]]), papers) for papers in np.split(order, cuts)]
    counts = graph.reference_counts
    return sorted(years, key=lambda item: (-int(counts[item[1]].sum()), item[0]))


def atypicality_of_year(
    graph: CitationGraph,
    venues: np.ndarray,
    year: int,
    papers: np.ndarray,
    null: str,
    samples: int,
    seed: int,
    memory: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`atypicality` of all papers of one year; `venues` as `checked_venues` gives them.

    Returns
    -------
    z : float64 array (15, 2, P)
        z10 and z_median from all null networks, then from each of the 14 halves.
    n : int64 array (2, P)
        n_pairs and n_left_out.
    """
    slots = year_slots(graph, venues, papers)
    pairs = venue_pairs(slots)
    members = [np.ones(GROUPS, bool), *HALVES]
    pairs_at_once, scores_at_once, on_disk = _year_plan(slots, pairs, year, memory)
    scores = new_array((SCORES, pairs.columns.size), np.float64, on_disk)
    for low in range(0, pairs.columns.size, pairs_at_once):
        part = pairs.part(low, low + pairs_at_once)
        sums = null_sums(slots, part, null, samples, seed, year, GROUPS)
        exact = expected_counts(slots, part) if null == "shuffle" else None
        for row, groups in zip(scores, members, strict=True):
            mean, sd = sums.moments(groups)
            row[low : low + pairs_at_once] = ratio(part.counts - (mean if exact is None else exact), sd)
        del sums, exact
    z, n = np.empty((SCORES, 2, papers.size)), np.empty((2, papers.size), np.int64)
    for first in range(0, SCORES, scores_at_once):
        rows = slice(first, first + scores_at_once)
        z[rows], of_rows = pair_percentiles(slots, pairs, np.array(scores[rows], copy=on_disk), [0.1, 0.5])
        if first == 0:
            n[:] = of_rows[0]
    return z, n


# Bytes that a year takes, checked by a test that traces what numpy allocates.
SLOT = 72
PAIR = 12
"""Its venue and how often it occurs."""
COUNTED_PAIR = 272
"""Its counts in the groups of null networks, and what their moments are made with."""
PAPER = 280
"""Its slots and its results."""
SCORE_OF_PAIR, SCORE_OF_PAPER = 8, 32
"""One of the fifteen scores of a pair, and its percentiles over the pairs of a paper."""
SCORES = 1 + len(HALVES)
FIXED = 1 << 16


def _year_plan(slots: YearSlots, pairs: VenuePairs, year: int, memory: int | None) -> tuple[int, int, bool]:
    """How many pairs are counted in the null networks at a time, how many of the 15 scores of a pair are in memory, and
    whether these wait in a file until all pairs have been counted; with `memory` None, everything at once."""
    n_pairs, least = pairs.columns.size, least_bytes(slots, pairs)
    score = _score_bytes(slots, pairs)
    fixed = least - max(score, COUNTED_PAIR)
    if memory is None or memory >= fixed + COUNTED_PAIR * n_pairs + SCORES * score:
        return max(1, n_pairs), SCORES, False
    if memory < least:
        raise BadInput(
            f"a memory of {memory:,} bytes for each thread is too little for the {slots.venue.size:,} references and "
            f"{n_pairs:,} venue pairs of {year}: give {least:,} bytes or more for each, or set SCISCI_GYM_THREADS=1"
        )
    return (memory - fixed) // COUNTED_PAIR, min(SCORES, (memory - fixed) // score), n_pairs > 0


def least_bytes(slots: YearSlots, pairs: VenuePairs) -> int:
    """Bytes that a year needs: with one pair counted in the null networks at a time, or one score of all pairs."""
    cells = 16 * slots.venues.size * (slots.cells.size + 2)
    fixed = FIXED + SLOT * slots.venue.size + PAIR * pairs.columns.size + PAPER * slots.papers.size + cells
    return fixed + max(_score_bytes(slots, pairs), COUNTED_PAIR)


def _score_bytes(slots: YearSlots, pairs: VenuePairs) -> int:
    return SCORE_OF_PAIR * pairs.columns.size + SCORE_OF_PAPER * slots.papers.size


def pair_percentiles(
    slots: YearSlots, pairs: VenuePairs, scores: np.ndarray, levels: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles (linear interpolation) of scores of the pairs over the pairs of each paper.

    `scores`, float64 (R, Q), are R scores of each pair, NaN where the pair is left out; `levels` are L numbers in
    [0, 1]. Returns the percentiles, float64 (R, L, P), NaN for a paper without pairs; and how many pairs they are taken
    over and how many are left out, int64 (R, 2, P).
    """
    percentiles = np.full((len(scores), len(levels), slots.papers.size), np.nan)
    n = np.zeros((len(scores), 2, slots.papers.size), np.int64)
    arrays = (slots.indptr, slots.venue, pairs.indptr, pairs.columns, scores)
    _percentiles_of_papers(*arrays, np.array(levels), percentiles, n)
    return percentiles, n


@kernel
def _percentiles_of_papers(indptr, venue, row, columns, scores, levels, out, n):
    longest = 0
    for k in range(indptr.size - 1):
        longest = max(longest, indptr[k + 1] - indptr[k])
    places = np.empty(longest * (longest - 1) // 2 + 1, np.int64)
    values = np.empty(places.size)
    for k in range(indptr.size - 1):
        own = venue[indptr[k] : indptr[k + 1]].copy()
        own.sort()
        size = 0
        for s in range(own.size):
            low = row[own[s]]
            for i in range(s + 1, own.size):
                high = row[own[s] + 1]
                while low < high:
                    middle = (low + high) >> 1
                    if columns[middle] < own[i]:
                        low = middle + 1
                    else:
                        high = middle
                places[size] = low
                size += 1
        for r in range(scores.shape[0]):
            defined = 0
            for i in range(size):
                score = scores[r, places[i]]
                if score == score:
                    values[defined] = score
                    defined += 1
            n[r, 0, k] = defined
            n[r, 1, k] = size - defined
            if defined:
                for level in range(levels.size):
                    out[r, level, k] = _percentile(values, defined, levels[level])


@kernel
def _percentile(values, size, level):
    """numpy's ``quantile(values[:size], level)``; reorders `values`."""
    position = level * (size - 1)
    k = int(position)
    low, high = 0, size - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            break
    below = values[k]
    if k + 1 >= size:
        return below
    above = values[k + 1]
    for i in range(k + 2, size):
        above = min(above, values[i])
    t = position - k
    return below + (above - below) * t if t < 0.5 else above - (above - below) * (1 - t)
