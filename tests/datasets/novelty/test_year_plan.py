"""Atypicality in a bounded memory: the venue pairs of a year counted in parts, with the same scores to the last bit."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import peak_memory

from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.novelty import atypicality
from scisci_gym.datasets.novelty.atypicality import COUNTED_PAIR, atypicality_of_year, least_bytes
from scisci_gym.datasets.novelty.venue_pairs import venue_pairs, year_slots

YEAR = 2000


def one_year_graph(lists, cited_years):
    """Papers of one year with the given reference lists over papers of `cited_years`."""
    edges = [(len(cited_years) + p, r) for p, refs in enumerate(lists) for r in refs]
    years = [*cited_years, *[YEAR] * len(lists)]
    return CitationGraph.from_edges([c for c, _ in edges], [r for _, r in edges], years)


def citing_papers(graph):
    return np.flatnonzero(graph.years == YEAR).astype(np.int32)


@st.composite
def years_of_references(draw):
    """Papers of one year that cite others of three years, of a few venues or of none."""
    cited = draw(st.lists(st.sampled_from([1997, 1998, 1999]), min_size=1, max_size=12))
    lists = draw(st.lists(st.lists(st.integers(0, len(cited) - 1), max_size=8, unique=True), min_size=1, max_size=8))
    venues = draw(st.lists(st.integers(-1, 4), min_size=len(cited), max_size=len(cited)))
    return one_year_graph(lists, cited), np.array(venues + [-1] * len(lists))


@given(years_of_references(), st.sampled_from(["shuffle", "switch"]), st.integers(0, 12) | st.just(10**9))
def test_pairs_that_are_counted_in_parts_have_the_same_scores(year, null, pairs_at_a_time):
    """The null networks of a year are the same for every part of its pairs."""
    graph, venues = year
    slots = year_slots(graph, venues, citing_papers(graph))
    memory = least_bytes(slots, venue_pairs(slots)) + 272 * pairs_at_a_time
    request = (graph, venues, YEAR, citing_papers(graph), null, 20, 3)
    for ours, whole in zip(atypicality_of_year(*request, memory), atypicality_of_year(*request), strict=True):
        assert ours.tobytes() == whole.tobytes()


@pytest.mark.parametrize("null", ["shuffle", "switch"])
def test_a_year_takes_no_more_than_the_memory(null):
    rng = np.random.default_rng(0)
    lists = [rng.choice(3000, 30, replace=False).tolist() for _ in range(1000)]
    graph = one_year_graph(lists, [1990 + r % 10 for r in range(3000)])
    venues = np.append(rng.integers(0, 1000, 3000), [-1] * 1000)
    slots = year_slots(graph, venues, citing_papers(graph))
    pairs = venue_pairs(slots)
    assert pairs.columns.size > 200_000
    one_part = least_bytes(slots, pairs) + COUNTED_PAIR * pairs.columns.size + 15 * 8 * pairs.columns.size
    results = {}
    for memory in (one_part, least_bytes(slots, pairs) + 50 * pairs.columns.size):
        scores = partial(atypicality, graph, venues, null=null, samples=2, threads=1, memory=memory)
        results[memory], peak = peak_memory(scores)
        of_results = 144 * graph.n_papers
        assert 0.5 * memory < peak - of_results <= memory
    parts, whole = results.values()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(parts, whole, strict=True))
    assert parts.halves.tobytes() == whole.halves.tobytes()


def test_too_little_memory_for_a_year_is_named():
    graph = one_year_graph([[0, 1], [1, 2]], [1998, 1999, 1999])
    venues = [0, 1, 2, -1, -1]
    message = (
        "a memory of 66,500 bytes for each thread is too little for the 4 references and 2 venue pairs of 2000: give"
    )
    with pytest.raises(ValueError, match=message):
        atypicality(graph, venues, threads=2, memory=133_000)
