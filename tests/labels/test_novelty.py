"""Atypicality against brute force: every null network written out, every pair counted in Python."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.novelty import DEFAULT_SAMPLES, atypicality
from scisci_gym.datasets.null_models import expected_counts, null_networks, sampled_moments
from scisci_gym.datasets.venue_pairs import venue_pairs, year_slots

YEAR = 2000


def one_year_graph(lists, cited_years):
    """Papers of one year with the given reference lists over papers of `cited_years`."""
    old = len(cited_years)
    edges = [(old + p, r) for p, refs in enumerate(lists) for r in refs]
    citing, cited = [c for c, _ in edges], [r for _, r in edges]
    return CitationGraph.from_edges(citing, cited, [*cited_years, *[YEAR] * len(lists)])


def slots_of(graph, venues):
    papers = np.flatnonzero(graph.years == YEAR).astype(np.int32)
    return year_slots(graph, np.asarray(venues, np.int64), papers)


def count_pairs(slots, venue):
    """Counter of unordered pairs of slots of the same paper, by venue."""
    pairs = Counter()
    for low, high in itertools.pairwise(slots.indptr):
        pairs.update(tuple(sorted(pair)) for pair in itertools.combinations(venue[low:high].tolist(), 2))
    return pairs


def entries(pairs):
    for row in range(pairs.indptr.size - 1):
        for at in range(pairs.indptr[row], pairs.indptr[row + 1]):
            yield at, (row, int(pairs.columns[at]))


# Six papers of two years and venues 0 and 1 (and one unknown); three citing papers.
CITED_YEARS = [1998, 1998, 1998, 1999, 1999, 1999, 1999]
VENUES = [0, 1, 0, 1, 0, 2, -1]
LISTS = [[0, 1, 3], [2, 4, 6], [1, 3, 5]]


@pytest.fixture
def small():
    graph = one_year_graph(LISTS, CITED_YEARS)
    slots = slots_of(graph, VENUES + [-1] * len(LISTS))
    return graph, slots, venue_pairs(slots)


def all_shuffles(slots):
    """Venues of the slots in every permutation inside cells."""
    cells = [np.flatnonzero(slots.cell == c) for c in range(slots.cells.size)]
    for orders in itertools.product(*(itertools.permutations(cell) for cell in cells)):
        venue = slots.venue.copy()
        for cell, order in zip(cells, orders, strict=True):
            venue[cell] = slots.venue[list(order)]
        yield venue


def all_switches(slots):
    """Venues of the slots in every assignment of the cited papers inside cells that cites no paper twice, once each."""
    venue_of = dict(zip(slots.cited.tolist(), slots.venue.tolist(), strict=True))
    cells = [np.flatnonzero(slots.cell == c) for c in range(slots.cells.size)]
    seen = set()
    for orders in itertools.product(*(itertools.permutations(cell) for cell in cells)):
        cited = slots.cited.copy()
        for cell, order in zip(cells, orders, strict=True):
            cited[cell] = slots.cited[list(order)]
        lists = [frozenset(cited[a:b].tolist()) for a, b in itertools.pairwise(slots.indptr)]
        simple = all(len(refs) == b - a for refs, (a, b) in zip(lists, itertools.pairwise(slots.indptr), strict=True))
        if simple and tuple(lists) not in seen:
            seen.add(tuple(lists))
            yield np.array([venue_of[r] for r in cited.tolist()])


def moments(slots, pairs, networks):
    counted = [count_pairs(slots, venue) for venue in networks]
    table = np.array([[c[key] for _, key in entries(pairs)] for c in counted], float)
    return table.mean(axis=0), table.std(axis=0)


def test_observed_pairs_are_counted_as_a_multiset(small):
    _, slots, pairs = small
    wanted = count_pairs(slots, slots.venue)
    assert {key: int(pairs.counts[at]) for at, key in entries(pairs)} == dict(wanted)


def test_closed_form_mean_is_the_mean_over_all_shuffles(small):
    _, slots, pairs = small
    mean, _ = moments(slots, pairs, all_shuffles(slots))
    np.testing.assert_allclose(expected_counts(slots, pairs), mean, rtol=1e-12)


@pytest.mark.parametrize(("null", "networks"), [("shuffle", all_shuffles), ("switch", all_switches)])
def test_sampled_moments_approach_those_of_all_networks(small, null, networks):
    _, slots, pairs = small
    mean, sd = moments(slots, pairs, networks(slots))
    samples = 20_000
    sampled_mean, sampled_sd = sampled_moments(slots, pairs, null, samples, 0, YEAR)
    np.testing.assert_allclose(sampled_mean, mean, atol=0.03)
    np.testing.assert_allclose(sampled_sd, sd, atol=0.03)


@st.composite
def years_of_lists(draw):
    cited_years = draw(st.lists(st.integers(1996, 2001), min_size=2, max_size=10))
    venues = draw(st.lists(st.integers(-1, 3), min_size=len(cited_years), max_size=len(cited_years)))
    references = st.lists(st.integers(0, len(cited_years) - 1), max_size=8, unique=True)
    lists = draw(st.lists(references, min_size=1, max_size=6))
    return one_year_graph(lists, cited_years), np.array(venues + [-1] * len(lists))


@given(years_of_lists(), st.sampled_from(["shuffle", "switch"]), st.integers(2, 12), st.integers(0, 3))
def test_equals_brute_force_over_the_same_networks(case, null, samples, seed):
    graph, venues = case
    result = atypicality(graph, venues, null=null, samples=samples, seed=seed)
    slots = slots_of(graph, venues)
    pairs = venue_pairs(slots)
    observed = count_pairs(slots, slots.venue)
    counted = [count_pairs(slots, network) for network in null_networks(slots, null, samples, seed, YEAR)]
    exact = dict(zip([key for _, key in entries(pairs)], expected_counts(slots, pairs), strict=True))
    for k, paper in enumerate(slots.papers):
        scores, left_out = [], 0
        for pair in itertools.combinations(slots.venue[slots.indptr[k] : slots.indptr[k + 1]].tolist(), 2):
            key = tuple(sorted(pair))
            values = [c[key] for c in counted]
            if min(values) == max(values):
                left_out += 1
                continue
            mean = exact[key] if null == "shuffle" else np.mean(values)
            scores.append((observed[key] - mean) / np.std(values))
        assert result.n_pairs[paper] == len(scores)
        assert result.n_left_out[paper] == left_out
        wanted = np.percentile(scores, [10, 50]) if scores else [np.nan, np.nan]
        np.testing.assert_allclose([result.z10[paper], result.z_median[paper]], wanted, rtol=1e-9, atol=1e-9)


@given(years_of_lists(), st.integers(0, 5))
def test_null_networks_keep_what_they_must(case, seed):
    graph, venues = case
    slots = slots_of(graph, venues)
    for null in ("shuffle", "switch"):
        for network in null_networks(slots, null, 3, seed, YEAR):
            for cell in range(slots.cells.size):
                here = slots.cell == cell
                assert Counter(network[here].tolist()) == Counter(slots.venue[here].tolist())


def random_case(papers=4000, seed=0):
    rng = np.random.default_rng(seed)
    years = np.sort(rng.integers(1990, 2000, papers))
    citing = np.repeat(np.arange(papers), rng.integers(0, 20, papers))
    cited = (citing * rng.random(citing.size) ** 0.5).astype(int)
    return CitationGraph.from_edges(citing, cited, years), rng.integers(-1, 60, papers)


@pytest.mark.parametrize("null", ["shuffle", "switch"])
def test_seed_decides_and_threads_do_not(null):
    graph, venues = random_case()
    runs = [atypicality(graph, venues, null=null, samples=5, seed=s, threads=t) for s, t in ((3, 1), (3, 4), (4, 4))]
    for one, many in zip(runs[0], runs[1], strict=True):
        assert one.tobytes() == many.tobytes()
    assert runs[0].n_left_out.tobytes() == runs[1].n_left_out.tobytes()
    assert runs[0].z10.tobytes() != runs[2].z10.tobytes()


@pytest.mark.slow
def test_default_samples_make_two_seeds_agree():
    graph, venues = random_case(6000)
    for paper in np.flatnonzero(np.random.default_rng(0).random(graph.n_papers) < 0.6):
        earlier = graph.references(paper)[graph.references(paper) < paper]
        if earlier.size:  # venues with a memory, so that there is something to measure
            venues[paper] = venues[earlier[0]]
    first, second = (atypicality(graph, venues, seed=seed) for seed in (0, 1))
    for one, other in zip(first[:2], second[:2], strict=True):
        both = ~np.isnan(one) & ~np.isnan(other)
        assert spearmanr(one[both], other[both]).statistic >= 0.99


def test_unpacks_and_travels():
    graph, venues = random_case(300)
    result = atypicality(graph, venues, samples=3)
    z10, z_median, n_pairs = result
    assert z10 is result.z10
    assert z_median is result.z_median
    copy = pickle.loads(pickle.dumps(result))
    assert np.array_equal(copy.n_left_out, result.n_left_out)
    lengths = np.array([(venues[graph.references(p)] >= 0).sum() for p in range(graph.n_papers)])
    assert np.array_equal(n_pairs + result.n_left_out, lengths * (lengths - 1) // 2)
    assert np.isnan(z10[lengths < 2]).all()
    assert set(DEFAULT_SAMPLES) == {"shuffle", "switch"}


@pytest.mark.parametrize(
    ("venues", "options", "message"),
    [
        ([0, 1], {}, r"venues has shape \(2,\) but the graph has 3 papers"),
        ([0.0, 1.0, 2.0], {}, "venues must be integers"),
        ([0, -2, 1], {}, r"venues\[1\] is -2"),
        ([0, 1, 2], {"null": "rewire"}, "null must be one of shuffle, switch, got 'rewire'"),
        ([0, 1, 2], {"samples": 1}, "samples must be an integer of at least 2"),
        ([0, 1, 2], {"seed": -1}, "seed must be a non-negative integer"),
    ],
)
def test_bad_input_is_named(venues, options, message):
    with pytest.raises(ValueError, match=message):
        atypicality(CitationGraph.from_edges([1], [0], [1990, 1991, 1992]), venues, **options)
    with pytest.raises(ValueError, match="the graph has no papers"):
        atypicality(CitationGraph.from_edges([], [], []), [])
