"""Atypicality against brute force: every null network written out, every pair counted in Python."""

import itertools
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.labels.schemes import (
    conventionality_score,
    half_sample_agreement,
    novelty_labels,
    novelty_score,
    sampled_labels,
    uzzi_labels,
)
from scisci_gym.datasets.novelty import Atypicality, atypicality
from scisci_gym.datasets.novelty.atypicality import DEFAULT_SAMPLES, HALVES
from scisci_gym.datasets.novelty.null_models import expected_counts, null_networks, null_sums
from scisci_gym.datasets.novelty.venue_pairs import venue_pairs, year_slots
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.openalex.works_table import WorksTable
from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus, write_synthetic_works

YEAR = 2000
HEPTH = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "hepth" / "works"


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
    sampled_mean, sampled_sd = null_sums(slots, pairs, null, samples, 0, YEAR, groups=7).moments()
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

    def scores_of(paper_pairs, networks):
        for key in paper_pairs:
            values = [c[key] for c in networks]
            if values and min(values) < max(values):
                mean = exact[key] if null == "shuffle" else np.mean(values)
                yield (observed[key] - mean) / np.std(values)

    def percentiles(scores):
        return np.percentile(scores, [10, 50]) if scores else [np.nan, np.nan]

    for k, paper in enumerate(slots.papers):
        own = slots.venue[slots.indptr[k] : slots.indptr[k + 1]].tolist()
        own_pairs = [tuple(sorted(pair)) for pair in itertools.combinations(own, 2)]
        scores = list(scores_of(own_pairs, counted))
        assert result.n_pairs[paper] == len(scores)
        assert result.n_left_out[paper] == len(own_pairs) - len(scores)
        z = [result.z10[paper], result.z_median[paper]]
        np.testing.assert_allclose(z, percentiles(scores), rtol=1e-9, atol=1e-9)
        for half, groups in zip(result.halves[:, :, paper], HALVES, strict=True):
            networks = [c for sample, c in enumerate(counted) if groups[sample * 8 // samples]]
            np.testing.assert_allclose(half, percentiles(list(scores_of(own_pairs, networks))), rtol=1e-5, atol=1e-5)


def test_halves_are_balanced():
    """Each group of networks is in half of the halves, and any two of them are together in as many as any other two."""
    together = HALVES.astype(int).T @ HALVES
    assert np.diag(together).tolist() == [7] * 8
    assert set(together[~np.eye(8, dtype=bool)]) == {3}
    assert np.array_equal(HALVES[7:], ~HALVES[:7])


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


def literature(papers):
    """Venues with a memory, so that there is something to measure."""
    graph, venues = random_case(papers)
    for paper in np.flatnonzero(np.random.default_rng(0).random(graph.n_papers) < 0.6):
        earlier = graph.references(paper)[graph.references(paper) < paper]
        if earlier.size:
            venues[paper] = venues[earlier[0]]
    return graph, venues


def changed_between_seeds(graph, venues, scheme="threshold", **options):
    """Shares of the papers with scores whose label another seed changes: of all, and of those that are given one; and
    the share that is withheld."""
    plain, given, share = [], [], 0.0
    for seed in (0, 1):
        result = atypicality(graph, venues, seed=seed, **options)
        if scheme == "uzzi":
            plain.append(uzzi_labels(result.z10, result.z_median, graph.years))
        else:
            scores = novelty_score(result.z10, graph.years), conventionality_score(result.z_median, graph.years)
            plain.append(novelty_labels(*scores))
        labels, withheld = sampled_labels(result, graph.years, scheme)
        given.append(labels)
        share += withheld.sum() / (plain[-1] != "").sum() / 2
    changed = []
    for one, other in (plain, given):
        both = (one != "") & (other != "")
        changed.append((one != other)[both].mean())
    return *changed, share


@pytest.mark.parametrize("scheme", ["threshold", "uzzi"])
def test_a_label_that_another_seed_may_change_is_withheld(scheme):
    changed, changed_given, withheld = changed_between_seeds(*literature(1500), scheme, samples=40)
    assert changed > 0.01
    assert changed_given < 0.002
    assert changed < withheld < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("null", ["shuffle", "switch"])
@pytest.mark.parametrize(("source", "most_withheld"), [("synthetic", 0.3), ("hepth", 0.15)])
def test_labels_of_real_and_synthetic_papers_do_not_depend_on_the_seed(tmp_path, source, most_withheld, null):
    folder = (
        HEPTH
        if source == "hepth"
        else write_synthetic_works(tmp_path, SyntheticCorpus(papers=6000, seed=7), LabelRules())
    )
    if not folder.exists():
        pytest.skip("no ../shared/data/hepth beside this checkout: real works are not part of the project")
    works = WorksTable.of_table(read_works(folder, progress=False)[0])
    changed, changed_given, withheld = changed_between_seeds(citation_graph(works), works.column("venue_id"), null=null)
    print(f"{source}, {null}: {changed:.4f} change, {changed_given:.5f} of those given, {withheld:.4f} withheld")
    assert changed > 0.02
    assert changed_given < 0.001
    assert withheld < most_withheld


def test_a_label_is_withheld_where_one_half_gives_another():
    """Three papers of a year: scores 2/3, 1/3 and 0. One half exchanges the two most novel ones."""
    z10, z_median = np.array([-2.0, -1.0, 0.0, np.nan]), np.array([0.0, 0.0, 0.0, np.nan])
    halves = np.stack([np.stack([z10, z_median])] * len(HALVES)).astype(np.float32)
    result = Atypicality(z10, z_median, np.ones(4, int), np.zeros(4, int), halves)
    assert sampled_labels(result, [2000] * 4)[0].tolist() == ["novel", "balanced", "balanced", ""]
    halves[3, 0, :2] = -1.0, -2.0
    labels, withheld = sampled_labels(result, [2000] * 4)
    assert labels.tolist() == ["", "", "balanced", ""]
    assert withheld.tolist() == [True, True, False, False]
    halves[3, 0, :] = np.nan  # this half gives no score: who knows
    assert sampled_labels(result, [2000] * 4)[1].tolist() == [True, True, True, False]
    with pytest.raises(ValueError, match="scheme must be 'threshold' or 'uzzi', got 'quantile'"):
        sampled_labels(result, [2000] * 4, "quantile")


def test_agreement_of_two_halves_is_spearmans():
    graph, venues = literature(800)
    result = atypicality(graph, venues, samples=20)
    found = half_sample_agreement(result, graph.years)
    assert [year for year, *_ in found] == sorted({year for year, *_ in found})
    for year, papers, *both in found:
        one, other = (result.halves[half][:, graph.years == year] for half in (0, 7))
        scored = ~np.isnan(one[0]) & ~np.isnan(other[0])
        assert scored.sum() == papers
        assert both == pytest.approx([spearmanr(one[k][scored], other[k][scored]).statistic for k in (0, 1)])


@pytest.mark.slow
def test_default_samples_make_two_seeds_agree():
    graph, venues = literature(6000)
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
    assert (result[2] is n_pairs, len(result), len(result[:2])) == (True, 3, 2)
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
