"""Graphs from tables: DataFrames, networkx graphs, csv and parquet; every way gives the graph of `from_edges`."""

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.graph.from_tables import graph_of_files, read_table

IDS, YEARS = ["007", "x", "NA", "9"], [1990, 1991, 1995, 1995]
CITING, CITED = ["NA", "NA", "9", "x"], ["007", "x", "007", "007"]
GRAPH = CitationGraph.from_edges([2, 2, 3, 1], [0, 1, 0, 0], YEARS, IDS)


def same(a: CitationGraph, b: CitationGraph) -> bool:
    names = ("years", "ref_indptr", "ref_indices", "cit_indptr", "cit_indices", "node_ids")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


def ids(graph: CitationGraph) -> list:
    assert graph.node_ids is not None
    return graph.node_ids.tolist()


def frames(node_ids=IDS, years=YEARS, citing=CITING, cited=CITED) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.DataFrame({"id": node_ids, "year": years}), pd.DataFrame({"citing": citing, "cited": cited})


def test_from_pandas() -> None:
    papers, citations = frames()
    assert same(CitationGraph.from_pandas(papers, citations), GRAPH)
    renamed = papers.rename(columns={"id": "doi", "year": "py"}), citations.rename(columns={"citing": "source"})
    assert same(CitationGraph.from_pandas(*renamed, columns=("doi", "py", "source", "cited")), GRAPH)
    with pytest.raises(ValueError, match="citations has no column 'citing', only source, cited"):
        CitationGraph.from_pandas(papers, renamed[1])


def test_from_networkx_is_the_inverse_of_to_networkx() -> None:
    assert same(CitationGraph.from_networkx(GRAPH.to_networkx()), GRAPH)
    numbered: Any = nx.DiGraph([(5, 3)])
    nx.set_node_attributes(numbered, {5: 2001, 3: 1999}, "published")
    graph = CitationGraph.from_networkx(numbered, year="published")
    assert (ids(graph), graph.years.tolist(), graph.references(0).tolist()) == ([5, 3], [2001, 1999], [1])
    with pytest.raises(ValueError, match="node 5 and 1 others have no attribute 'year'"):
        CitationGraph.from_networkx(numbered)
    with pytest.raises(ValueError, match="undirected"):
        CitationGraph.from_networkx(numbered.to_undirected())


@pytest.mark.parametrize(
    ("node_ids", "citing", "message"),
    [
        ([1, 2, 3, None], [1, 2, 3, 2], r"node_ids\[3\] is nan: ids must be all integers or all strings, none missing"),
        (["a", "b", 3, "c"], ["a", "b", "c", "a"], r"node_ids\[2\] is 3: ids must be"),
        (["1", "2", "3", "4"], [1, 2, 3, 2], "citing holds integers but the papers have strings for ids"),
    ],
)
def test_bad_ids_are_named(node_ids: list, citing: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CitationGraph.from_pandas(*frames(node_ids, citing=citing))


def test_ids_that_became_floats_are_integers_still() -> None:
    papers, citations = frames([1.0, 2.0, 3.0, 4.0], citing=[2, 3, 4, 4], cited=[1.0, 1.0, 2.0, 3.0])
    assert CitationGraph.from_pandas(papers, citations).n_citations == 4


def write(folder, kinds, papers, citations) -> tuple[str, str]:
    paths = [str(folder / f"{name}.{kind}") for name, kind in zip(("papers", "citations"), kinds, strict=True)]
    for path, frame in zip(paths, (papers, citations), strict=True):
        if path.endswith("parquet"):
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
    return paths[0], paths[1]


@pytest.mark.parametrize(
    "kinds", [("csv", "csv"), ("parquet", "parquet"), ("csv.gz", "parquet"), ("parquet", "csv")], ids=str
)
def test_from_files(tmp_path, kinds) -> None:
    graph, papers, skipped = graph_of_files(*write(tmp_path, kinds, *frames()))
    assert same(graph, GRAPH)
    assert papers["id"].to_pylist() == IDS
    assert not skipped


def test_numbers_in_one_file_and_texts_in_the_other(tmp_path) -> None:
    numbered = frames([7, 8, 9, 10], citing=[9, 9, 10, 8], cited=[7, 8, 7, 7])
    graph, *_ = graph_of_files(*write(tmp_path, ("parquet", "csv"), *numbered))
    assert ids(graph) == ["7", "8", "9", "10"]
    assert np.array_equal(graph.ref_indices, GRAPH.ref_indices)


BAD = {
    "year is no year": ({"years": [1990, 1991, "forthcoming", 1995]}, r"papers.csv, row 3 below the header \(id NA"),
    "id is missing": ({"node_ids": ["007", "x", "NA", None]}, "papers.csv, row 4 below"),
    "id is that of an earlier row": ({"node_ids": ["007", "x", "NA", "x"]}, "papers.csv, row 4 below"),
    "citing is missing": ({"citing": ["NA", None, "9", "x"]}, "citations.csv, row 2 below"),
    "cited is no id of the papers": (
        {"cited": ["007", "W", "W", "007"]},
        r"citations.csv, row 2 below the header \(citing NA, cited W\): .*, and 1 rows like it; .* --skip-bad",
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_row_is_named_or_counted(tmp_path, problem) -> None:
    changes, message = BAD[problem]
    paths = write(tmp_path, ("csv", "csv"), *frames(**changes))
    with pytest.raises(BadInput, match=message) as caught:
        graph_of_files(*paths)
    assert problem in str(caught.value)
    graph, papers, skipped = graph_of_files(*paths, skip_bad=True)
    assert skipped[problem] == 1 + problem.startswith("cited")
    assert graph.n_papers == papers.num_rows == 4 - ("citations" not in message)
    assert ids(graph) == papers["id"].to_pylist()


def test_a_file_that_is_no_table(tmp_path) -> None:
    (tmp_path / "papers.xlsx").write_text("no table")
    with pytest.raises(BadInput, match=r"papers.xlsx is not named .csv or .csv.gz and is no parquet file"):
        graph_of_files(tmp_path / "papers.xlsx", tmp_path / "citations.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(BadInput, match=r"empty.csv cannot be read as csv"):
        graph_of_files(tmp_path / "empty.csv", tmp_path / "citations.csv")


def test_a_table_that_is_missing_is_named(tmp_path):
    for name in ("papers.csv", "papers.parquet"):
        with pytest.raises(FileNotFoundError, match=rf"^no file .*{name}; give a table, csv or parquet$"):
            read_table(tmp_path / name)
