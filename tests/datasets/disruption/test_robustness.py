"""What stands beside a CD index: percentile among its like, rewired graphs, a confidence interval, coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets import percentiles
from scisci_gym.datasets.disruption import cd_index, disruption_counts
from scisci_gym.datasets.disruption.robustness import (
    cd_interval,
    cd_percentile,
    coverage,
    rewired_cd,
    rewired_graphs,
)
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.percentiles import group_numbers, group_percentile, share_higher, share_lower

values = st.lists(st.tuples(st.one_of(st.just(float("nan")), st.integers(0, 4)), st.integers(0, 2)), max_size=30)


def random_graph(papers=400, citations=4000, seed=0):
    rng = np.random.default_rng(seed)
    citing, cited = rng.integers(0, papers, (2, citations))
    return CitationGraph.from_edges(citing, cited, rng.integers(1990, 2000, papers))


@given(values)
def test_shares_equal_counting(pairs):
    x, group = np.array([v for v, _ in pairs], float), [g for _, g in pairs]
    lower, higher, middle = share_lower(x, group), share_higher(x, group), group_percentile(x, group)
    for k, own in enumerate(x):
        same = [v for v, g in zip(x, group, strict=True) if g == group[k] and v == v]
        if own != own:
            assert np.isnan([lower[k], higher[k], middle[k]]).all()
            continue
        below, above = sum(v < own for v in same), sum(v > own for v in same)
        assert lower[k] == below / len(same)
        assert higher[k] == above / len(same)
        assert middle[k] == pytest.approx((below + (len(same) - above)) / 2 / len(same))


@given(values, st.sampled_from([1, 3, 8]))
def test_shares_are_the_same_a_few_groups_at_a_time(pairs, at_a_time):
    x, group = np.array([v for v, _ in pairs], float), np.array([g for _, g in pairs], np.int64)
    whole = [share(x, group) for share in (share_lower, share_higher, group_percentile)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(percentiles, "AT_A_TIME", at_a_time)
        parts = [share(x, group) for share in (share_lower, share_higher, group_percentile)]
    np.testing.assert_array_equal(parts, whole)


@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([0, 7, 10**12, -(10**12)]), st.text("ab", max_size=2))))
def test_group_numbers_tell_the_keys_apart(rows):
    keys = [np.array([row[place] for row in rows], kind) for place, kind in enumerate((np.int16, np.int64, str))]
    numbers = group_numbers(len(rows), *keys).tolist()
    for number, row in zip(numbers, rows, strict=True):
        for other, like in zip(numbers, rows, strict=True):
            assert (number == other) is (row == like)
    assert max(numbers, default=0) < max(4 * len(rows), 1 << 16)


def test_cd_percentile_compares_like_with_like():
    cd = [1.0, 0.5, 0.5, 0.9, np.nan]
    percentile = cd_percentile(cd, ["a", "a", "a", "b", "a"], [2000, 2000, 2000, 2000, 2000], [6, 7, 30, 6, 6])
    assert percentile[:4].tolist() == [0.75, 0.25, 0.5, 0.5]
    assert np.isnan(percentile[4])


def test_rewired_graphs_keep_citations_by_year_and_move_the_rest():
    graph = random_graph()
    for rewired in rewired_graphs(graph, 3, seed=1):
        assert rewired.n_citations == graph.n_citations
        for rows, other in ((graph.references, rewired.references), (graph.citers, rewired.citers)):
            for paper in range(graph.n_papers):
                assert sorted(graph.years[rows(paper)]) == sorted(graph.years[other(paper)])
        moved = np.mean(graph.ref_indices != rewired.ref_indices)
        assert moved > 0.5


def test_z_is_against_the_mean_and_spread_of_rewired_graphs():
    graph = random_graph(120, 900)
    result = rewired_cd(graph, samples=6, seed=2)
    runs = np.array([cd_index(rewired) for rewired in rewired_graphs(graph, 6, seed=2)])
    kept = ~np.isnan(runs).any(axis=0) & (runs.std(axis=0) > 0)
    np.testing.assert_allclose(result.mean[kept], runs.mean(axis=0)[kept])
    np.testing.assert_allclose(result.sd[kept], runs.std(axis=0)[kept], rtol=1e-6)
    np.testing.assert_allclose(result.z[kept], (cd_index(graph)[kept] - result.mean[kept]) / result.sd[kept])
    again = rewired_cd(graph, samples=6, seed=2, threads=3)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(result, again, strict=True))


def test_interval_covers_a_share_of_about_its_level():
    rng = np.random.default_rng(0)
    truth = np.array([0.3, 0.2, 0.5])
    counts = rng.multinomial(80, truth, size=2000).T
    low, high = cd_interval(tuple(counts), 0.9, samples=500)
    inside = (low <= 0.1) & (high >= 0.1)
    assert 0.86 < inside.mean() < 0.94


def test_interval_of_a_paper_depends_on_its_counts_only():
    counts = disruption_counts(random_graph())
    low, high = cd_interval(counts, samples=100, seed=5)
    some = slice(50, 90)
    part_low, part_high = cd_interval(tuple(n[some] for n in counts), samples=100, seed=5)
    assert np.array_equal(part_low, low[some], equal_nan=True)
    assert np.array_equal(part_high, high[some], equal_nan=True)
    assert np.array_equal(np.isnan(low), sum(counts) == 0)


def test_n_i_and_n_j_are_together_the_citations_in_the_window():
    graph = random_graph()
    citing, cited = graph.edges()
    after = graph.years[citing].astype(int) - graph.years[cited]
    for window in (1, 5, None):
        inside = (after > 0) & (after <= (window or np.inf))
        n_i, n_j, _ = disruption_counts(graph, window)
        assert np.array_equal(np.bincount(cited[inside], minlength=graph.n_papers), n_i + n_j)


def test_bad_input_is_named():
    graph = CitationGraph.from_edges([1], [0], [1990, 1991])
    with pytest.raises(ValueError, match=r"reference_counts\[1\] is 0 but 1 references"):
        coverage(graph, [0, 0])
    with pytest.raises(ValueError, match="reference_counts has shape"):
        coverage(graph, [1])
    with pytest.raises(ValueError, match="samples must be an integer of at least 2"):
        rewired_cd(graph, samples=1)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        cd_interval(([1], [1], [1]), 95)
    with pytest.raises(ValueError, match="grouping key 0 has shape"):
        group_percentile([1.0, 2.0], ["a"])
