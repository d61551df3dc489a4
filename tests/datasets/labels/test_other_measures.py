"""Commonness, first-time pairs and sleeping beauties, each against a few lines of plain Python."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.citation_impact import citation_percentile, citations_in_window, sleeping_beauty
from scisci_gym.datasets.novelty import atypicality
from scisci_gym.datasets.novelty.commonness import commonness
from scisci_gym.datasets.novelty.first_pairs import first_pairs


@st.composite
def graphs_with_venues(draw):
    size = draw(st.integers(2, 20))
    years = draw(st.lists(st.integers(1990, 1996), min_size=size, max_size=size))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=80))
    venues = draw(st.lists(st.integers(-1, 4), min_size=size, max_size=size))
    return CitationGraph.from_edges([a for a, _ in edges], [b for _, b in edges], years), venues


def venue_pairs_of(graph, venues, paper):
    known = [venues[r] for r in graph.references(paper) if venues[r] >= 0]
    return [tuple(sorted(pair)) for pair in itertools.combinations(known, 2)]


@given(graphs_with_venues())
def test_commonness_equals_its_definition(case):
    graph, venues = case
    ours = commonness(graph, venues)
    for year in set(graph.years.tolist()):
        papers = [p for p in range(graph.n_papers) if graph.years[p] == year]
        pairs = Counter(pair for p in papers for pair in venue_pairs_of(graph, venues, p))
        total = sum(pairs.values())
        with_venue = Counter()
        for pair, count in pairs.items():
            for venue in set(pair):
                with_venue[venue] += count
        for p in papers:
            scores = [
                pairs[i, j] * total / (with_venue[i] * with_venue[j]) for i, j in venue_pairs_of(graph, venues, p)
            ]
            wanted = -math.log(np.percentile(scores, 10)) if scores else math.nan
            assert ours[p] == pytest.approx(wanted, abs=1e-9, nan_ok=True)


@given(graphs_with_venues(), st.integers(1, 3), st.integers(0, 3))
def test_first_pairs_equal_their_definition(case, history, reuse):
    graph, venues = case
    ours = first_pairs(graph, venues, history=history, reuse=reuse)
    by_year = defaultdict(Counter)
    for p in range(graph.n_papers):
        by_year[int(graph.years[p])].update(pair for pair in venue_pairs_of(graph, venues, p) if pair[0] != pair[1])
    for p in range(graph.n_papers):
        year = int(graph.years[p])
        before = set().union(*(by_year[y] for y in list(by_year) if y < year))
        after = set().union(*(by_year[y] for y in range(year + 1, year + reuse + 1) if y in by_year))
        profile = defaultdict(Counter)
        for y in range(year - history, year):
            for (i, j), count in by_year.get(y, Counter()).items():
                profile[i][j] += count
                profile[j][i] += count
        new = {pair for pair in venue_pairs_of(graph, venues, p) if pair[0] != pair[1]} - before
        if reuse:
            new &= after
        wanted = 0.0
        for i, j in new:
            dot = sum(count * profile[j][k] for k, count in profile[i].items())
            norms = [math.sqrt(sum(c * c for c in profile[v].values())) for v in (i, j)]
            wanted += 1 - (dot / (norms[0] * norms[1]) if all(norms) else 0.0)
        assert ours.n_new[p] == len(new)
        assert ours.novelty[p] == pytest.approx(wanted, abs=1e-9)


def test_the_least_cited_venues_can_be_left_out():
    # Venues 0-1 and 1-2 in 1991, four times and once: venue 2 is the least cited of three.
    citing = [*np.repeat([4, 5, 6, 7], 2), 8, 8, 9, 9]
    cited = [*[0, 1] * 4, 1, 2, 0, 2]
    graph = CitationGraph.from_edges(citing, cited, [1990] * 4 + [1991] * 5 + [1992])
    venues = [0, 1, 2, 3] + [-1] * 6
    assert first_pairs(graph, venues).n_new[9] == 1
    assert first_pairs(graph, venues, skip_least_cited=0.3).n_new[9] == 0


def test_the_least_cited_venues_are_those_with_the_fewest_references():
    # In 1991 one paper cites venues 0, 1 and 3 and three cite venue 2 alone: it is in no pair, and cited most.
    citing, cited = [4, 5, 6, 7, 7, 7, 8, 8, 9, 9], [2, 2, 2, 0, 1, 3, 0, 3, 0, 2]
    graph = CitationGraph.from_edges(citing, cited, [1990] * 4 + [1991] * 4 + [1991, 1992])
    venues = [0, 1, 2, 3] + [-1] * 6
    assert first_pairs(graph, venues).n_new[9] == 1
    # References: venue 1 one, venues 0 and 3 two, venue 2 three; a quarter of four venues is venue 1.
    assert first_pairs(graph, venues, skip_least_cited=0.25).n_new[9] == 1
    assert first_pairs(graph, venues, skip_least_cited=0.5).n_new[9] == 0


@given(graphs_with_venues(), st.lists(st.integers(0, 2**63 - 1), min_size=5, max_size=5, unique=True))
def test_venues_may_have_any_numbers(case, numbers):
    """Integer OpenAlex ids, and larger ones: what counts is which papers share a venue."""
    graph, venues = case
    names = sorted(numbers)
    named = np.array([names[v] if v >= 0 else -1 for v in venues])
    assert all(
        np.array_equal(*both) for both in zip(first_pairs(graph, venues), first_pairs(graph, named), strict=True)
    )
    assert np.array_equal(commonness(graph, venues), commonness(graph, named), equal_nan=True)
    plain, other = (atypicality(graph, which, samples=3) for which in (venues, named))
    assert all(np.array_equal(*both, equal_nan=True) for both in zip(plain, other, strict=True))


@given(graphs_with_venues())
def test_sleeping_beauty_equals_its_definition(case):
    graph, _ = case
    coefficient, awakening = sleeping_beauty(graph)
    for p in range(graph.n_papers):
        ages = Counter(
            int(graph.years[c] - graph.years[p]) for c in graph.citers(p) if graph.years[c] >= graph.years[p]
        )
        if not ages:
            assert (coefficient[p], awakening[p]) == (0, -1)
            continue
        peak = min(t for t in ages if ages[t] == max(ages.values()))
        slope = (ages[peak] - ages[0]) / peak if peak else 0.0
        line = [slope * t + ages[0] for t in range(peak + 1)]
        wanted = sum((line[t] - ages[t]) / max(1, ages[t]) for t in range(peak + 1))
        assert coefficient[p] == pytest.approx(wanted)
        gaps = [abs(line[t] - ages[t]) for t in range(peak + 1)]
        assert gaps[awakening[p]] == pytest.approx(max(gaps))


@given(graphs_with_venues(), st.integers(1, 6))
def test_citations_in_window_equal_counting(case, window):
    graph, _ = case
    counts = citations_in_window(graph, window)
    for p in range(graph.n_papers):
        after = [int(graph.years[c] - graph.years[p]) for c in graph.citers(p)]
        assert counts[p] == sum(0 <= age <= window for age in after)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: first_pairs(g, [0, 1], history=0), "history must be an integer of at least 1"),
        (lambda g: first_pairs(g, [0, 1], skip_least_cited=1), "skip_least_cited must be in"),
        (lambda g: first_pairs(g, [0]), "venues has shape"),
        (lambda g: commonness(g, [0]), "venues has shape"),
        (
            lambda g: citation_percentile(g, ["x", "x"], window=None),
            "window must be a positive number of years",
        ),
        (lambda g: citation_percentile(g, ["x"]), "grouping key 0 has shape"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(CitationGraph.from_edges([1], [0], [1990, 1991]))
