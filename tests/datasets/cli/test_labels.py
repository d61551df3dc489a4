"""`scisci-gym labels`: one table with every label."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scisci_gym.datasets.cli.labels import app
from scisci_gym.datasets.disruption import cd_index
from scisci_gym.datasets.disruption.year_ranks import YearRanks
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.labels.table import label_table
from scisci_gym.datasets.novelty import atypicality


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    rng = np.random.default_rng(0)
    papers = 300
    citing, cited = rng.integers(0, papers, (2, 4000))
    ids = np.array([f"W{i}" for i in range(papers)])
    graph = CitationGraph.from_edges(citing, cited, rng.integers(1990, 2005, papers), ids)
    folder = tmp_path_factory.mktemp("labels")
    graph.save(folder / "graph")
    venues = rng.integers(0, 8, papers)
    order = rng.permutation(papers)
    table = {
        "id": ids[order],
        "venue": pa.array([None if v == 0 else f"venue {v}" for v in venues[order]]),
        "field": np.where(venues[order] < 4, "a", "b"),
        "reference_count": graph.reference_counts[order] + 1,
    }
    pq.write_table(pa.table(table), folder / "papers.parquet")
    return folder, graph, np.where(venues == 0, -1, venues)


def test_writes_every_label(saved):
    folder, graph, venues = saved
    arguments = [str(folder / "graph"), "--papers", str(folder / "papers.parquet"), "--out", str(folder / "l.parquet")]
    result = CliRunner().invoke(
        app, [*arguments, "--trajectory", "3", "--samples", "5", "--rewired", "2", "--interval"]
    )
    assert result.exit_code == 0, result.output
    table = pq.read_table(folder / "l.parquet")
    assert table["id"].to_pylist() == list(graph.node_ids)
    assert np.array_equal(table["cd"].to_numpy(), cd_index(graph), equal_nan=True)
    assert np.array_equal(table["cd_3"].to_numpy(), cd_index(graph, 3), equal_nan=True)
    expected = atypicality(graph, venues, samples=5)
    np.testing.assert_allclose(table["z10"].to_numpy(), expected.z10)
    columns = "mcd di_nok di_5 dependence eligible disruption_label beauty coverage cd_percentile citation_percentile"
    more = (
        "hit_label novelty_score conventionality_score novelty_label commonness_novelty first_pair_novelty "
        "venue_pairs_left_out"
    )
    assert set(f"{columns} {more}".split()) <= set(table.column_names)


def test_slices_that_fit_into_a_memory_give_the_same_file(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("SCISCI_GYM_THREADS", "1")
    folder, graph, _ = saved
    files = [tmp_path / "whole.parquet", tmp_path / "slices.parquet"]
    memory = YearRanks(graph, threads=1).least_bytes + 3000
    for file, more in zip(files, ([], ["--memory", f"{memory}B"]), strict=True):
        arguments = [str(folder / "graph"), "--papers", str(folder / "papers.parquet"), "--out", str(file)]
        done = CliRunner().invoke(app, [*arguments, *SHORT, *more])
        assert done.exit_code == 0, done.output
    assert len(YearRanks(graph, threads=1).parts(memory)) > 3
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("size", "message"),
    [("8XB", "error: memory 8XB is not a size: give e.g. 8GB"), ("9KB", "a memory of 9,000 bytes is too little")],
)
def test_a_memory_that_cannot_be_is_named(saved, tmp_path, size, message):
    done = CliRunner().invoke(app, [str(saved[0] / "graph"), "--out", str(tmp_path / "l.csv"), "--memory", size])
    assert done.exit_code == 2
    assert message in done.output
    assert not any(tmp_path.iterdir())


def test_without_a_file_of_papers(saved):
    table = label_table(saved[0] / "graph", rules=LabelRules(window=3))
    assert "z10" not in table.column_names
    assert np.array_equal(table["cd"].to_numpy(), cd_index(saved[1], 3), equal_nan=True)


def test_errors_say_what_to_do(saved, tmp_path):
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 2
    assert "no citation graph in" in result.output
    pq.write_table(pa.table({"id": ["W0"], "venue": [1]}), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match="has no row for paper 'W1' and 298 others"):
        label_table(saved[0] / "graph", papers=tmp_path / "one.parquet")
    pq.write_table(pa.table({"name": ["W0"]}), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="none of the columns venue, field, excluded, reference_count"):
        label_table(saved[0] / "graph", papers=tmp_path / "none.parquet")


@pytest.fixture(scope="module")
def tables(saved):
    """The saved graph as two csv files; of the papers some have no venue."""
    folder, graph, venues = saved
    citing, cited = (graph.node_ids[ends] for ends in graph.edges())
    pd.DataFrame({"citing": citing, "cited": cited}).to_csv(folder / "citations.csv", index=False)
    named = [None if venue < 0 else f"venue {venue}" for venue in venues]
    papers = {"id": graph.node_ids, "year": graph.years, "venue": named, "field": np.where(venues < 4, "a", "b")}
    pd.DataFrame(papers).to_csv(folder / "papers.csv", index=False)
    return folder


SHORT = ["--samples", "5", "--trajectory", "2"]


def rows(path):
    if path.suffix == ".csv":
        return pd.read_csv(path, keep_default_na=False, na_values={"cd": [""]}).to_dict("records")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pq.read_table(path).to_pylist()


def test_two_tables_give_the_labels_of_the_saved_graph(tables, tmp_path):
    common = [*SHORT, "--papers", str(tables / "papers.csv"), "--out"]
    done = CliRunner().invoke(app, [str(tables / "graph"), *common, str(tmp_path / "saved.parquet")])
    assert done.exit_code == 0, done.output
    made = [tmp_path / f"made.{kind}" for kind in ("parquet", "csv", "jsonl")]
    for path in made:
        done = CliRunner().invoke(app, ["--citations", str(tables / "citations.csv"), *common, str(path)])
        assert done.exit_code == 0, done.output
        assert "CitationGraph(300 papers," in done.output
    wanted = pq.read_table(tmp_path / "saved.parquet")
    pd.testing.assert_frame_equal(pq.read_table(made[0]).to_pandas(), wanted.to_pandas())
    for path in made[1:]:
        read = pd.DataFrame(rows(path))
        assert list(read.columns) == wanted.column_names
        assert read["id"].tolist() == wanted["id"].to_pylist()
        assert read["disruption_label"].tolist() == wanted["disruption_label"].to_pylist()
        assert np.array_equal(read["cd"].astype(float).to_numpy(), wanted["cd"].to_numpy(), equal_nan=True)
    assert {path.name for path in tmp_path.iterdir()} == {"saved.parquet", *(path.name for path in made)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--citations", "c.csv"], "give the folder of a saved graph, or --citations and --papers"),
        ([], "give the folder of a saved graph"),
        (["graph", "--citations", "c.csv", "--papers", "p.csv"], "give the folder of a saved graph, or"),
        (["graph", "--out", "labels.xlsx"], "--out labels.xlsx ends in .xlsx; labels are written as .parquet, .csv or"),
        (["graph", "--out", "notes.csv"], "notes.csv exists and is no table of labels"),
    ],
)
def test_a_wrong_request_is_answered_before_anything_is_computed(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert done.output.startswith("error: ")
    assert message in done.output
    assert (tmp_path / "notes.csv").read_text() == "a,b\n1,2\n"


def test_bad_rows_are_named_or_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("id,year\na,1990\nb,\nc,1995\n")
    (tmp_path / "c.csv").write_text("citing,cited\nc,a\nc,b\n")
    arguments = ["--citations", "c.csv", "--papers", "p.csv", "--out", "labels.csv"]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "p.csv, row 2 below the header (id b, year nan): year is no year" in done.output
    done = CliRunner().invoke(app, [*arguments, "--skip-bad"])
    assert done.exit_code == 0, done.output
    assert "left out 1 rows: year is no year\nleft out 1 rows: cited is no id of the papers\n" in done.output
    assert [row["id"] for row in rows(tmp_path / "labels.csv")] == ["a", "c"]
    (tmp_path / "p.csv").write_text("id,year,excluded,reference_count\na,1990,1,many\nc,1995,0,2\n")
    done = CliRunner().invoke(app, [*arguments, "--skip-bad"])
    assert (done.exit_code, "column 'reference_count' of the table of papers: Failed to parse" in done.output) == (
        2,
        True,
    )
