"""`CitationGraph`: what goes in comes out, what is dropped is counted, and bad input is named."""

import dataclasses
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kill_points import kill_points
from peak_memory import peak_memory

from scisci_gym.datasets.atomic_files import claimed
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.graph.from_parquet import build_graph


@st.composite
def edge_lists(draw, most_papers=12):
    """Edges with duplicates, self-citations, unknown ends, and citations of any year."""
    years = draw(st.lists(st.integers(1990, 1999), min_size=1, max_size=most_papers))
    ends = st.integers(-1, len(years) - 1)
    return draw(st.lists(st.tuples(ends, ends), max_size=60)), years


def arrays(edges):
    return [a for a, _ in edges], [b for _, b in edges]


@given(edge_lists(), st.integers(1, 3))
def test_rows_hold_the_distinct_known_edges_both_ways(given_graph, threads):
    edges, years = given_graph
    graph = CitationGraph.from_edges(*arrays(edges), years, threads=threads)
    known = [(a, b) for a, b in edges if a >= 0 and b >= 0]
    wanted = {(a, b) for a, b in known if a != b}
    assert {(p, int(r)) for p in range(len(years)) for r in graph.references(p)} == wanted
    assert {(int(c), p) for p in range(len(years)) for c in graph.citers(p)} == wanted
    for p in range(len(years)):
        assert list(graph.references(p)) == sorted(graph.references(p))
        assert list(graph.citers(p)) == sorted(graph.citers(p), key=lambda c: (years[c], c))
    report = graph.report
    assert report.kept == graph.n_citations == len(wanted)
    assert report.unknown == len(edges) - len(known)
    assert report.self_citations == sum(a == b for a, b in known)
    assert report.edges == report.kept + report.unknown + report.self_citations + report.duplicates
    assert report.from_the_past == sum(years[b] > years[a] for a, b in wanted)
    assert set(graph.to_networkx().edges) == wanted


def same(a, b):
    names = ("years", "ref_indptr", "ref_indices", "cit_indptr", "cit_indices")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names) and a.report == b.report


@pytest.mark.parametrize("mmap", [True, False])
def test_save_and_load(tmp_path, mmap):
    graph = CitationGraph.from_edges([1, 2, 2], [0, 0, 1], [1990, 1991, 1992], node_ids=["a", "b", "c"])
    graph.save(tmp_path)
    loaded = CitationGraph.load(tmp_path, mmap=mmap)
    assert same(graph, loaded)
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("papers", [0, 3])
def test_a_graph_without_citations_survives(tmp_path, papers):
    graph = CitationGraph.from_edges([], [], [2000] * papers)
    graph.save(tmp_path)
    assert same(graph, CitationGraph.load(tmp_path))


def test_arrays_are_read_only():
    graph = CitationGraph.from_edges([1], [0], [1990, 1991])
    with pytest.raises(ValueError, match="read-only"):
        graph.ref_indices[0] = 1


@given(edge_lists(), st.sampled_from([1, 40, 1 << 20]), st.booleans())
def test_built_in_passes_equals_built_in_memory(tmp_path_factory, given_graph, memory, text):
    edges, years = given_graph
    folder = tmp_path_factory.mktemp("build")
    order = np.argsort(years, kind="stable")
    ids = [f"W{i}" for i in range(len(years))] if text else [7 * i + 3 for i in range(len(years))]
    unknown = "W-none" if text else -5
    citing, cited = ([ids[e] if e >= 0 else unknown for e in ends] for ends in arrays(edges))
    kind = pa.string() if text else pa.int64()
    pq.write_table(pa.table({"id": pa.array(ids, kind), "year": years}), folder / "papers.parquet")
    table = pa.table({"citing": pa.array(citing, kind), "cited": pa.array(cited, kind)})
    pq.write_table(table, folder / "citations.parquet", row_group_size=7)
    built = build_graph(folder / "papers.parquet", folder / "citations.parquet", folder / "graph", memory=memory)
    names = np.asarray(ids)[order]
    assert same(built, CitationGraph.from_ids(citing, cited, np.asarray(years)[order], names))
    assert built.node_ids is not None
    assert built.node_ids.tolist() == names.tolist()
    assert {path.suffix for path in (folder / "graph").iterdir()} == {".npy", ".json", ".lock"}


def test_a_paper_takes_forty_bytes_while_a_graph_is_built(tmp_path):
    papers = 300_000
    ids = np.random.default_rng(0).permutation(papers)
    files = write(tmp_path, {"id": ids, "year": ids % 50 + 1970}, {"citing": ids[:9000], "cited": ids[9000:18_000]})
    _, peak = peak_memory(lambda: build_graph(*files, memory=100_000))
    assert peak < 40 * papers


def write(folder, papers, citations):
    pq.write_table(pa.table(papers), folder / "papers.parquet")
    pq.write_table(pa.table(citations), folder / "citations.parquet")
    return folder / "papers.parquet", folder / "citations.parquet", folder / "graph"


@pytest.mark.parametrize(
    ("papers", "citations", "message"),
    [
        ({"id": [1, 2], "year": [1990, None]}, {"citing": [2], "cited": [1]}, "'year'.*missing in 1 of 2"),
        ({"id": [1, 1], "year": [1990, 1991]}, {"citing": [1], "cited": [1]}, "more than once"),
        ({"id": [1], "published": [1990]}, {"citing": [1], "cited": [1]}, "no column 'year'"),
        ({"id": [1], "year": [1990]}, {"source": [1], "cited": [1]}, "no column 'citing'"),
        (
            {"id": pa.array([], pa.int64()), "year": pa.array([], pa.int64())},
            {"citing": [1], "cited": [1]},
            "no papers",
        ),
        (
            {"id": [1, 2], "year": [1990, 1991]},
            {"citing": [2], "cited": ["1"]},
            "'cited' has the type string, but the ids of papers are numbers",
        ),
    ],
)
def test_bad_parquet_is_named(tmp_path, papers, citations, message):
    with pytest.raises(ValueError, match=message):
        build_graph(*write(tmp_path, papers, citations))


@pytest.mark.parametrize("damaged", ["papers", "citations"])
def test_a_damaged_page_is_named(tmp_path, damaged):
    ids = np.random.default_rng(0).permutation(20_000)
    files = write(tmp_path, {"id": ids, "year": ids % 100 + 1900}, {"citing": ids, "cited": ids[::-1]})
    path = tmp_path / f"{damaged}.parquet"
    content = bytearray(path.read_bytes())
    content[2000:2600] = b"\xff" * 600
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{damaged}.parquet cannot be read as parquet .*; write or fetch it again"):
        build_graph(*files)


def test_progress_bar_shows_every_pass(tmp_path, capsys):
    build_graph(*write(tmp_path, {"id": [1, 2], "year": [1, 2]}, {"citing": [2], "cited": [1]}), progress=True)
    shown = capsys.readouterr().out
    assert all(stage in shown for stage in ("reading citations", "references", "citing papers"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [1], [1990, None]), r"years\[1\] is None"),
        (([0], [1], [1990, float("nan")]), r"years\[1\] is .*nan"),
        (([0], [1], [1990, -1]), r"years\[1\] is -1"),
        (([0], [1], [1990, 1990.5]), r"years\[1\] is .*1990.5"),
        (([0], [2], [1990, 1991]), r"cited\[0\] is 2 but there are 2 papers"),
        (([-2], [1], [1990, 1991]), r"citing\[0\] is -2"),
        (([0, 1], [1], [1990, 1991]), "citing has 2 entries but cited has 1"),
        (([0.5], [1], [1990, 1991]), "citing must hold integer positions, got float64"),
        (([0], [1], [[1990, 1991]]), "one-dimensional"),
        (([0], [1], [1990, 1991], ["a"]), "node_ids has shape"),
    ],
)
def test_bad_edges_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        CitationGraph.from_edges(*arguments)


def test_ids_must_be_distinct():
    with pytest.raises(ValueError, match="'W1' more than once"):
        CitationGraph.from_ids(["W1"], ["W1"], [1990, 1991], ["W1", "W1"])


def test_loading_what_is_not_a_graph(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no citation graph in .*graph\.json is missing"):
        CitationGraph.load(tmp_path)
    CitationGraph.from_edges([1], [0], [1990, 1991]).save(tmp_path)
    np.save(tmp_path / "years.npy", np.zeros(5, np.int16))
    with pytest.raises(ValueError, match=r"5 papers \(years\) with 1 entries in ref_indices need 6"):
        CitationGraph.load(tmp_path)
    CitationGraph.from_edges([1], [0], [1990, 1991, 1992]).save(tmp_path / "other")
    (tmp_path / "graph.json").replace(tmp_path / "other" / "graph.json")
    with pytest.raises(ValueError, match=r"holds 3 papers and 1 citations but its graph\.json says 2"):
        CitationGraph.load(tmp_path / "other")


def chain(papers):
    """Paper p cites the one before it; ids that tell graphs of one size apart."""
    ids = [f"{papers}-{p}" for p in range(papers)]
    return CitationGraph.from_edges(range(1, papers), range(papers - 1), range(1990, 1990 + papers), node_ids=ids)


def test_a_graph_can_be_saved_over_itself(tmp_path):
    """The files that a graph has mapped are not the ones that are written: this ended the process once."""
    chain(9).save(tmp_path)
    for _ in range(3):
        graph = CitationGraph.load(tmp_path)
        graph.save(tmp_path)
        chain(5).save(tmp_path)
        assert same(graph, chain(9))
        assert same(CitationGraph.load(tmp_path), chain(5))
        graph.save(tmp_path)
    assert same(CitationGraph.load(tmp_path), chain(9))
    assert len(list(tmp_path.glob("*.npy"))) == 6


def test_a_killed_save_leaves_the_old_graph_or_the_new_one(tmp_path):
    old, new = chain(9), CitationGraph.from_edges([2, 3], [0, 1], range(1990, 1999), node_ids=list("abcdefghi"))
    folder = tmp_path / "graph"
    old.save(folder)
    for point in kill_points(folder, lambda: new.save(folder)):
        found = CitationGraph.load(folder)
        assert same(found, old) or same(found, new), point
        assert same(found, new) or not point.finished
        old.save(folder)  # and what is left of the killed run goes with the next
        assert same(CitationGraph.load(folder), old), point
        assert len(list(folder.glob("*.npy"))) == 6, point


def test_a_killed_build_leaves_the_old_graph_or_the_new_one(tmp_path):
    files = write(tmp_path, {"id": [7, 8, 9], "year": [1, 2, 3]}, {"citing": [8, 9, 9], "cited": [7, 7, 8]})
    old, new = chain(9), build_graph(*files)
    folder = tmp_path / "over"
    old.save(folder)
    for point in kill_points(folder, lambda: build_graph(*files[:2], folder)):
        found = CitationGraph.load(folder)
        assert same(found, old) or same(found, new), point
        assert same(found, new) or not point.finished


def test_one_process_at_a_time_writes_a_graph(tmp_path):
    with claimed(tmp_path / "graph.lock", "unused"):
        code = (
            "import sys; from scisci_gym.datasets.graph import CitationGraph\n"
            "CitationGraph.from_edges([], [], [1]).save(sys.argv[1])"
        )
        done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True)
    assert "another process is writing a graph" in done.stderr
    assert not list(tmp_path.glob("*.npy"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "ref_indices",
            lambda a: a + 1000,
            r"row 1 of ref_indices, \[0:1\] of 8, does not ascend by position over the 9",
        ),
        ("ref_indices", lambda a: a - 1000, "row 1 of ref_indices"),
        ("cit_indices", lambda a: a + 1000, "row 0 of cit_indices"),
        ("cit_indices", lambda a: a[:-1], "cit_indptr has 10 entries, from 0 to 8, but 9 papers"),
        ("cit_indptr", lambda a: np.r_[0, a[:0:-1]], "cit_indptr has 10 entries, from 0 to 1,"),
        ("ref_indptr", lambda a: np.r_[0, 10**12, a[2:]], r"row 0 of ref_indices, \[0:1000000000000\] of 8"),
        (
            "ref_indptr",
            lambda a: a.astype(float),
            "ref_indptr must be a one-dimensional array of integers, got float64",
        ),
        ("years", lambda a: a[:-1], "need 9, from 0 to 8"),
        ("years", lambda a: a.astype(str), "years must be a one-dimensional array of integers, got <U"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, change, message):
    """What a kernel would follow out of its arrays never reaches one."""
    graph = chain(9)
    graph.save(tmp_path)
    np.save(tmp_path / f"{name}.npy", change(getattr(graph, name)))
    with pytest.raises(ValueError, match=message):
        CitationGraph.load(tmp_path)


def test_citers_out_of_order_are_named():
    graph = CitationGraph.from_edges([1, 2], [0, 0], [1990, 1995, 1991])
    assert graph.citers(0).tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"row 0 of cit_indices.* by year and position over the 3 papers: \[1, 2\]"):
        dataclasses.replace(graph, cit_indices=graph.cit_indices[::-1])
