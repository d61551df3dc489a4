"""One rule, one function: eligibility, tertiles, citation percentiles and hits, each against plain Python."""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import peak_memory

from scisci_gym import Paper
from scisci_gym.datasets import percentiles
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels import table
from scisci_gym.datasets.labels.citation_impact import citation_percentile, hit_labels
from scisci_gym.datasets.labels.eligibility import LabelRules, last_complete_year
from scisci_gym.datasets.labels.graph_labels import GraphLabels, graph_labels
from scisci_gym.datasets.labels.schemes import disruption_labels, tertile_cuts, uzzi_labels
from scisci_gym.datasets.paper import disruption_label
from scisci_gym.datasets.splits import certainly_before


def focal_of_2005(window: int, last: int, references: int = 1, citations: int = 1) -> bool:
    """Is a paper of 2005 with so many references and citations eligible?"""
    old, new = range(1, 1 + references), range(1 + references, 1 + references + citations)
    citing, cited = [0] * references + [*new], [*old] + [0] * citations
    years = [2005] + [2000] * references + [2006] * citations
    rules = LabelRules(window=window, min_references=1, min_citations=1, last_complete_year=last)
    return bool(graph_labels(CitationGraph.from_edges(citing, cited, years), rules).eligible[0])


def test_a_window_that_ends_with_the_last_complete_year_is_closed():
    assert focal_of_2005(window=5, last=2010)
    assert not focal_of_2005(window=5, last=2009)


def test_a_paper_needs_references_and_citations():
    assert not focal_of_2005(5, 2010, references=0)
    assert not focal_of_2005(5, 2010, citations=0)


def test_the_last_complete_year_is_that_of_the_data_where_none_is_given():
    years = np.array([2000] * 10 + [2001] * 8 + [2002] * 3)
    assert LabelRules().closed_by(years) == last_complete_year(years) == 2001
    assert LabelRules(last_complete_year=2002).closed_by(years) == 2002


RANKS = LabelRules("quantile", min_group=3)
D, N, C = "disruptive", "neutral", "consolidating"


@pytest.mark.parametrize(
    ("cd", "labels"),
    [
        ([0.1, 0.2, 0.3], [C, N, D]),
        ([0.1, 0.2, 0.3, 0.4, 0.5], [C, N, N, N, D]),
        ([-0.5, -0.4, -0.3, -0.2, -0.15, -0.1], [C, C, N, N, D, D]),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.7], [N, N, N, N, N, D]),
        ([0.0, 0.0, 0.5, 0.6, 0.7, 0.7], [C, C, N, N, D, D]),
        ([0.0, 0.0, 0.0, 0.6, 0.7, 0.7], [N, N, N, N, D, D]),
    ],
)
def test_tertiles_by_hand(cd, labels):
    assert disruption_labels(cd, RANKS, fields=["x"] * len(cd), years=[2000] * len(cd)).tolist() == labels


papers = st.lists(
    st.tuples(
        st.none() | st.sampled_from([-1.0, -0.5, -0.1, 0.0, 1 / 3, 0.5, 1.0]),
        st.sampled_from("xy"),
        st.sampled_from([2000, 2001]),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


@given(papers, st.integers(3, 6))
def test_a_tertile_label_says_what_share_of_the_eligible_papers_of_field_and_year_is_lower(made, smallest):
    cd = np.array([np.nan if value is None else value for value, *_ in made])
    fields, years = [field for _, field, *_ in made], [year for _, _, year, _ in made]
    among = np.array([eligible for *_, eligible in made])
    rules = LabelRules("quantile", min_group=smallest)
    labels = disruption_labels(cd, rules, fields=fields, years=years, among=among)
    cuts = tertile_cuts(cd, fields, years, smallest, among)
    groups = defaultdict(list)
    for value, field, year, eligible in made:
        if eligible and value is not None:
            groups[field, year].append(value)
    assert set(cuts) == {key for key, values in groups.items() if len(values) >= smallest}
    for label, (value, field, year, eligible) in zip(labels, made, strict=True):
        group = groups[field, year]
        if value is None or len(group) < smallest:
            assert label == ""
        elif eligible:
            lower, higher = sum(v < value for v in group), sum(v > value for v in group)
            assert label == (D if 3 * lower >= 2 * len(group) else C if 3 * higher >= 2 * len(group) else N)
            low, high = cuts[field, year]
            assert label == (C if value < low else D if value > high else N)


def test_small_groups_have_no_tertiles():
    rules = LabelRules("quantile")
    assert set(disruption_labels([0.1] * 14, rules, fields=["x"] * 14, years=[2000] * 14)) == {""}
    assert set(disruption_labels([0.1] * 15, rules, fields=["x"] * 15, years=[2000] * 15)) == {N}
    with pytest.raises(ValueError, match="give fields and years"):
        disruption_labels([0.1], rules)


@given(st.lists(st.floats(-1, 1), min_size=1), st.floats(0, 0.99))
def test_a_threshold_label_is_that_of_the_paper(cd, threshold):
    labels = disruption_labels(cd, LabelRules(threshold=threshold))
    assert labels.tolist() == [disruption_label(value, threshold) for value in cd]


@st.composite
def cited_papers(draw):
    size = draw(st.integers(1, 30))
    years = draw(st.lists(st.integers(1990, 1995), min_size=size, max_size=size))
    fields = draw(st.lists(st.sampled_from("ab"), min_size=size, max_size=size))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=120))
    return CitationGraph.from_edges([a for a, _ in edges], [b for _, b in edges], years), fields


@given(cited_papers(), st.integers(1, 3), st.integers(1992, 1996))
def test_a_citation_percentile_is_the_share_that_is_cited_less_often_in_a_closed_window(case, window, last):
    graph, fields = case
    years = graph.years.tolist()
    shares = citation_percentile(graph, fields, window, last)
    early = [sum(0 <= years[c] - years[p] <= window for c in graph.citers(p).tolist()) for p in range(graph.n_papers)]
    for p in range(graph.n_papers):
        group = [early[q] for q in range(graph.n_papers) if (fields[q], years[q]) == (fields[p], years[p])]
        if years[p] + window > last:
            assert np.isnan(shares[p])
        else:
            assert shares[p] == pytest.approx(sum(other < early[p] for other in group) / len(group), abs=1e-12)


def test_hits_are_those_that_95_percent_are_cited_less_often_than():
    # Forty papers of one year and field; paper k gets k citations a year later.
    citing = np.concatenate([40 + np.arange(k) for k in range(40)])
    cited = np.concatenate([np.full(k, k) for k in range(40)])
    graph = CitationGraph.from_edges(citing, cited, [2000] * 40 + [2001] * 40)
    shares = citation_percentile(graph, ["x"] * 80)
    assert shares[39] == 39 / 40
    assert np.flatnonzero(hit_labels(shares) == "hit").tolist() == [38, 39]
    # In two fields of twenty, only the best of each.
    assert np.flatnonzero(hit_labels(citation_percentile(graph, ["x", "y"] * 40)) == "hit").tolist() == [38, 39]


@given(st.lists(st.floats(0, 1), min_size=1))
def test_a_hit_label_is_that_of_the_paper(shares):
    labels = hit_labels(shares).tolist()
    assert labels == [Paper(openalex_id="W1", title="t", citation_percentile=share).hit_label for share in shares]


def test_uzzis_own_cut():
    labels = uzzi_labels([-1, 1, 1, np.nan], [0, 5, 0, 1], [2000] * 4)
    assert labels.tolist() == ["novel", "conventional", "balanced", ""]


@pytest.mark.parametrize(
    ("date", "year", "before"),
    [
        ("1999-03-01", 1999, True),
        ("1999-06-15", 1999, False),
        ("1999-06-16", 1999, False),
        ("1999-01-01", 1999, False),
        ("", 1999, False),
        ("", 1998, True),
        ("2000-02-02", 1998, True),
        ("1999-02-30x", 1999, False),
        ("", 2000, False),
        ("1998-02-02", 2000, False),
    ],
)
def test_what_certainly_appeared_before_15_june_1999(date, year, before):
    assert certainly_before(date, year, "1999-06-15", 1999) is before


def test_labels_take_thirty_two_bytes_a_paper_with_a_memory(tmp_path, monkeypatch):
    """Counts are on disk then, and papers are ranked a part at a time; before, it was 235 bytes."""
    papers = 300_000
    rng = np.random.default_rng(0)
    citing, cited = rng.integers(0, papers, (2, 30_000))
    CitationGraph.from_edges(citing, cited, 1950 + rng.integers(0, 50, papers)).save(tmp_path)
    graph, fields = CitationGraph.load(tmp_path), rng.integers(0, 20, papers).astype(np.int32)
    for module in (percentiles, sys.modules[disruption_counts.__module__]):
        monkeypatch.setattr(module, "AT_A_TIME", 1 << 13)
    rules = LabelRules("quantile", min_citations=0, min_references=0)

    def labelled() -> GraphLabels:
        counts = disruption_counts(graph, rules.window, threads=1, memory=12_000_000)
        return graph_labels(graph, rules, fields, counts=counts, on_disk=True)

    labels, peak = peak_memory(labelled)
    assert labels.eligible.any()
    assert peak < 32 * papers


def test_a_table_of_labels_takes_seventy_bytes_a_paper_with_a_memory(tmp_path, monkeypatch):
    """Its columns are on disk then, and the one that is being computed is in memory; the whole table has 250 bytes."""
    papers = 300_000
    rng = np.random.default_rng(0)
    citing, cited = rng.integers(0, papers, (2, 30_000))
    CitationGraph.from_edges(citing, cited, 1950 + rng.integers(0, 50, papers)).save(tmp_path)
    columns = {"field": rng.integers(0, 20, papers).astype(str), "venue": rng.integers(-1, 50, papers)}
    given = pa.table({"id": np.arange(papers), **columns, "excluded": rng.random(papers) < 0.1})
    for module in (percentiles, table, sys.modules[disruption_counts.__module__]):
        monkeypatch.setattr(module, "AT_A_TIME", 1 << 13)
    monkeypatch.setenv("SCISCI_GYM_THREADS", "1")
    options = {"papers": given, "rules": LabelRules("quantile", min_citations=0), "samples": 2, "trajectory": 3}
    in_files, peak = peak_memory(lambda: table.label_table(tmp_path, **options, memory=12_000_000))
    assert peak < 70 * papers
    in_memory = table.label_table(tmp_path, **options)
    assert in_files.schema == in_memory.schema
    for one, other in zip(in_files.columns, in_memory.columns, strict=True):
        np.testing.assert_array_equal(one.to_numpy(), other.to_numpy())


def test_a_column_of_texts_goes_to_its_file_part_by_part(monkeypatch):
    monkeypatch.setattr(table, "AT_A_TIME", 10_000)
    held = []

    def labels_of(part: slice) -> np.ndarray:
        held.append(pa.total_allocated_bytes())
        return np.full(part.stop - part.start, "consolidating")

    column = table._column(labels_of, 300_000, on_disk=True)
    assert (len(column), column.unique().to_pylist()) == (300_000, ["consolidating"])
    assert max(held) - held[0] < 3 * 10_000 * 17  # a few parts of 17 bytes a text, not all thirty
