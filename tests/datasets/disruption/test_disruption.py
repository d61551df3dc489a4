"""The CD index and its family: worked by hand, equal to `cdindex`, and equal to code that reads like the definition."""

import gzip
import json
import re
from pathlib import Path

import cdindex
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import peak_memory

from scisci_gym.datasets.disruption import cd_index, disruption_counts
from scisci_gym.datasets.disruption.counting import LINE, count
from scisci_gym.datasets.disruption.variants import cd_trajectory, dependence, di_l, di_nok, mcd_index
from scisci_gym.datasets.disruption.year_ranks import YearRanks, new_scratch
from scisci_gym.datasets.graph import CitationGraph

HEPTH = Path(__file__).parents[3] / ".." / "shared" / "data" / "hepth" / "works"

WORKED_YEARS = [1992, 1992, 1993, 1993, 1995, 1997, 1998, 1999, 1999, 1998, 1997]
WORKED = {4: [2, 0, 1, 3], 5: [2], 6: [2, 4], 7: [4], 8: [4], 9: [4, 1, 3], 10: [4]}
WORKED_CD = [1, 1, 1, 1, 1 / 6, 0, 0, np.nan, np.nan, 0, 0]


def worked_graph():
    edges = [(c, r) for c, refs in WORKED.items() for r in refs]
    return CitationGraph.from_edges([c for c, _ in edges], [r for _, r in edges], WORKED_YEARS)


@st.composite
def graphs(draw):
    """Small and dense: duplicates, self-citations, same-year and future citations, papers without either all occur."""
    size = draw(st.integers(1, 25))
    years = draw(st.lists(st.integers(1990, 1990 + draw(st.integers(0, 12))), min_size=size, max_size=size))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=150))
    return CitationGraph.from_edges([a for a, _ in edges], [b for _, b in edges], years)


windows = st.one_of(st.none(), st.integers(1, 12))


def by_definition(graph, window):
    """Sets of later papers, straight from the definition, on a networkx graph."""
    network = graph.to_networkx()
    year = network.nodes(data="year")
    for focal in network:
        references = set(network.successors(focal))
        later = {c for c in network if year[c] > year[focal] and (window is None or year[c] <= year[focal] + window)}
        cites_focal = {c for c in later if focal in network[c]}
        cites_references = {c for c in later if references & set(network[c])}
        yield cites_focal - cites_references, cites_focal & cites_references, cites_references - cites_focal, references


def quotient(a, b):
    return a / b if b else np.nan


def equal(ours, theirs):
    return np.array_equal(ours, np.array(theirs, float), equal_nan=True)


def with_cdindex(graph, window):
    peer = cdindex.Graph()
    for paper, year in enumerate(graph.years.tolist()):
        peer.add_vertex(paper, year)
    for paper in range(graph.n_papers):
        for reference in graph.references(paper).tolist():
            peer.add_edge(paper, reference)
    values = [peer.cdindex(paper, window) for paper in range(graph.n_papers)]
    return [np.nan if value is None else value for value in values]


def test_worked_graph():
    assert equal(cd_index(worked_graph()), WORKED_CD)
    n_i, n_j, n_k = disruption_counts(worked_graph())
    assert (n_i[4], n_j[4], n_k[4]) == (3, 2, 1)


@given(graphs(), st.integers(1, 12))
def test_equals_cdindex(graph, window):
    assert equal(cd_index(graph, window), with_cdindex(graph, window))


@given(graphs(), windows)
def test_family_equals_the_definition(graph, window):
    network = graph.to_networkx()
    sets = list(by_definition(graph, window))
    n = [[len(s) for s in kind] for kind in zip(*[row[:3] for row in sets], strict=True)]
    for counted, wanted in zip(disruption_counts(graph, window), n, strict=True):
        assert counted.dtype == np.int64
        assert counted.tolist() == wanted
    assert equal(cd_index(graph, window), [quotient(i - j, i + j + k) for i, j, k in zip(*n, strict=True)])
    assert equal(mcd_index(graph, window), [quotient(i - j, i + j + k) * (i + j) for i, j, k in zip(*n, strict=True)])
    assert equal(di_nok(graph, window), [quotient(i - j, i + j) for i, j, _ in zip(*n, strict=True)])
    shared = [[len(refs & set(network[c])) for c in both] for _, both, _, refs in sets]
    assert equal(
        dependence(graph, window), [quotient(sum(s), i + j) for s, i, j in zip(shared, n[0], n[1], strict=True)]
    )
    for least in (1, 2, 5):
        n_l = [sum(count >= least for count in s) for s in shared]
        wanted = [quotient(i - j, i + j + k) for i, j, k in zip(n[0], n_l, n[2], strict=True)]
        assert equal(di_l(graph, least, window), wanted)


@given(graphs(), st.integers(1, 14))
def test_trajectory_is_cd_at_every_window(graph, years):
    trajectory = cd_trajectory(graph, years)
    assert trajectory.shape == (graph.n_papers, years)
    for window in range(1, years + 1):
        assert equal(trajectory[:, window - 1], cd_index(graph, window))


def random_graph(papers=3000, citations=60_000, seed=0):
    rng = np.random.default_rng(seed)
    years = rng.integers(1980, 2010, papers)
    citing, cited = rng.integers(0, papers, (2, citations))
    return CitationGraph.from_edges(citing, (cited * rng.random(citations) ** 2).astype(int), years)


def test_the_number_of_threads_changes_nothing():
    graph = random_graph(9000)
    for measure in (cd_index, mcd_index, di_nok, di_l, dependence, cd_trajectory):
        one, many = measure(graph, threads=1), measure(graph, threads=5)
        assert one.tobytes() == many.tobytes(), measure.__name__


@given(graphs(), windows, st.integers(1, 3), st.integers(0, 400))
def test_slices_of_the_citing_years_change_nothing(graph, window, threads, more):
    """From one citing paper at a time to nearly all at once, with citations inside a year and of later years."""
    memory = YearRanks(graph, threads).least_bytes + more
    for measure in (cd_index, mcd_index, di_nok, di_l, dependence):
        whole, slices = (measure(graph, window=window, threads=threads, memory=m) for m in (None, memory))
        assert slices.tobytes() == whole.tobytes(), measure.__name__
    whole, slices = (cd_trajectory(graph, window or 9, threads=threads, memory=m) for m in (None, memory))
    assert slices.tobytes() == whole.tobytes()
    sets = [[len(s) for s in row[:3]] for row in by_definition(graph, window)]
    counts = np.stack(disruption_counts(graph, window, threads=threads, memory=memory), axis=1)
    assert counts.dtype == np.int64
    assert counts.tolist() == sets


@given(graphs(), st.integers(0, 400))
def test_a_slice_is_as_large_as_the_memory_allows(graph, more):
    ranks = YearRanks(graph, threads=1)
    memory = ranks.least_bytes + more
    parts = ranks.parts(memory)
    assert [0, *(high for _, high in parts)] == [*(low for low, _ in parts), graph.n_papers]
    assert all(ranks.part_bytes(*part) <= memory for part in parts)
    assert all(ranks.part_bytes(low, high + 1) > memory for low, high in parts[:-1])


def peak_beside_results(work):
    """`peak_memory`, without what the arrays of the result take."""
    result, peak = peak_memory(work)
    return result, peak - sum(array.nbytes for array in result)


@pytest.mark.parametrize("by_year", [True, False])
def test_slices_take_no_more_than_the_memory(tmp_path, by_year):
    graph = random_graph(20_000, 1_000_000)
    if by_year:
        citing, cited = graph.edges()
        rank = np.empty(graph.n_papers, np.int64)
        rank[np.argsort(graph.years, kind="stable")] = np.arange(graph.n_papers)
        graph = CitationGraph.from_edges(rank[citing], rank[cited], np.sort(graph.years))
    graph.save(tmp_path)
    mapped = CitationGraph.load(tmp_path)
    ranks = YearRanks(mapped, threads=2)
    memory = ranks.least_bytes + graph.n_citations
    assert len(ranks.parts(memory)) > 3
    slices, peak = peak_beside_results(lambda: disruption_counts(mapped, threads=2, memory=memory))
    assert peak <= memory
    whole, peak = peak_beside_results(lambda: disruption_counts(mapped, threads=2))
    assert np.array_equal(slices, whole)
    assert by_year or peak > memory


@pytest.mark.parametrize("measure", [disruption_counts, cd_index, mcd_index, di_nok, di_l, dependence, cd_trajectory])
def test_too_little_memory_is_named(measure):
    message = r"a memory of 1,000 bytes is too little for the CD index of 11 papers with 1 threads: give [0-9,]+ bytes"
    with pytest.raises(ValueError, match=message) as caught:
        measure(worked_graph(), threads=1, memory=1000)
    least = int(re.findall("give ([0-9,]+)", str(caught.value))[0].replace(",", ""))
    measure(worked_graph(), threads=1, memory=least)
    with pytest.raises(ValueError, match="too little"):
        measure(worked_graph(), threads=1, memory=least - 1)


def test_order_of_papers_changes_nothing():
    graph = random_graph()
    shuffle = np.random.default_rng(1).permutation(graph.n_papers)
    citing, cited = graph.edges()
    years = np.empty_like(graph.years)
    years[shuffle] = graph.years
    moved = CitationGraph.from_edges(shuffle[citing], shuffle[cited], years)
    assert equal(cd_index(moved)[shuffle], cd_index(graph))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_marks_that_run_out_change_nothing(dtype):
    graph = random_graph()
    ranks = YearRanks(graph, threads=1)
    walk = ranks.walk(5)
    scratch = np.zeros(graph.n_papers, dtype), np.zeros(2, np.int64), np.zeros(graph.n_papers, np.int32)
    stamp, state, _ = scratch
    given = np.iinfo(dtype).max - 100  # the marks of so many papers that came before
    stamp[:] = np.random.default_rng(0).integers(1, given + 1, graph.n_papers)
    state[:] = given, graph.n_papers
    counts = np.zeros((3, graph.n_papers), np.int64)
    count(ranks.papers(0, graph.n_papers), walk, scratch, counts)
    assert np.array_equal(counts, disruption_counts(graph))


def test_the_order_of_the_pieces_changes_nothing():
    graph = random_graph()
    ranks = YearRanks(graph, threads=1)
    walk = ranks.walk(5)
    scratch = new_scratch(walk)
    counts = np.zeros((3, graph.n_papers), np.int64)
    for papers in np.array_split(ranks.papers(0, graph.n_papers), 40)[::-1]:  # hints from later years
        count(papers, walk, scratch, counts)
    assert np.array_equal(counts, disruption_counts(graph))


@pytest.mark.parametrize("each_year", [1, LINE - 1, LINE, LINE + 1, 3 * LINE])
def test_hints_find_their_place_among_many_citers_of_a_year(each_year):
    """All papers cite the first; pieces begin in the middle of its citers, go back, and jump over years."""
    years = np.concatenate([[1990], np.repeat(np.arange(1991, 2000), each_year)])
    edges = [(paper, 0) for paper in range(1, years.size)]
    edges += [(paper, max(paper - each_year - paper % 3, 1)) for paper in range(2 + each_year, years.size)]
    graph = CitationGraph.from_edges([a for a, _ in edges], [b for _, b in edges], years)
    wanted = np.array([[len(s) for s in row[:3]] for row in by_definition(graph, 3)]).T
    ranks = YearRanks(graph, threads=1)
    walk = ranks.walk(3)
    pieces = np.array_split(ranks.papers(0, graph.n_papers), 9)
    for order in ([0, 1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1, 0], [4, 0, 8, 1, 7, 2, 6, 3, 5]):
        scratch, counts = new_scratch(walk), np.zeros((3, graph.n_papers), np.int64)
        for piece in order:
            count(pieces[piece], walk, scratch, counts)
        assert np.array_equal(counts, wanted)


def test_mapped_graph_gives_the_same(tmp_path):
    graph = random_graph()
    graph.save(tmp_path)
    assert equal(cd_index(CitationGraph.load(tmp_path)), cd_index(graph))


@pytest.mark.parametrize("measure", [disruption_counts, cd_index, mcd_index, di_nok, di_l, dependence])
@pytest.mark.parametrize("window", [0, -1, 2.5, True, "5"])
def test_bad_windows_are_named(measure, window):
    with pytest.raises(ValueError, match="window must be a positive number of years"):
        measure(worked_graph(), window=window)


@pytest.mark.parametrize("measure", [disruption_counts, cd_index, mcd_index, di_nok, di_l, dependence, cd_trajectory])
def test_an_empty_graph_is_named(measure):
    with pytest.raises(ValueError, match="the graph has no papers"):
        measure(CitationGraph.from_edges([], [], []))


def test_other_bad_input_is_named():
    with pytest.raises(ValueError, match="least must be a positive number of shared references, got 0"):
        di_l(worked_graph(), 0)
    with pytest.raises(ValueError, match="years must be a positive integer"):
        cd_trajectory(worked_graph(), None)
    with pytest.raises(ValueError, match="threads must be a positive integer"):
        cd_index(worked_graph(), threads=0)


def test_papers_without_citations_are_undefined_and_without_references_are_one():
    graph = CitationGraph.from_edges([1], [0], [1990, 1991, 1992])
    assert equal(cd_index(graph), [1.0, np.nan, np.nan])


@pytest.mark.slow
@pytest.mark.skipif(not HEPTH.is_dir(), reason="the hep-th works are not at ../shared/data/hepth of the repository")
def test_hepth_equals_cdindex_on_every_paper():
    lines = [line for path in sorted(HEPTH.glob("*/*.gz")) for line in gzip.decompress(path.read_bytes()).splitlines()]
    works = [json.loads(line) for line in lines]
    ids = [work["id"] for work in works]
    pairs = [(work["id"], reference) for work in works for reference in work["referenced_works"]]
    years = [work["publication_year"] for work in works]
    graph = CitationGraph.from_ids([a for a, _ in pairs], [b for _, b in pairs], years, ids)
    assert graph.n_papers == 27_770
    assert graph.report.self_citations == 39
    assert graph.report.from_the_past == 445
    ours, theirs = cd_index(graph), with_cdindex(graph, 5)
    assert np.isfinite(ours).sum() > 20_000
    assert equal(ours, theirs)


def test_cdindex_takes_a_self_citation_for_a_predecessor():
    """Paper 1 cites 0; later 2 cites 1 alone, and 3 cites both. Here an edge from 1 to 1 changes nothing."""
    edges, years = [(1, 0), (2, 1), (3, 1), (3, 0)], [1990, 1992, 1994, 1995]
    for chosen, theirs in ((edges, 0.0), ([*edges, (1, 1)], -1.0)):
        peer = cdindex.Graph()
        for paper, year in enumerate(years):
            peer.add_vertex(str(paper), year)
        for citing, cited in chosen:
            peer.add_edge(str(citing), str(cited))
        assert peer.cdindex("1", 5) == theirs
        graph = CitationGraph.from_edges([a for a, _ in chosen], [b for _, b in chosen], years)
        assert cd_index(graph)[1] == 0.0
        assert graph.report.self_citations == len(chosen) - len(edges)
