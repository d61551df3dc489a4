"""`scisci-gym labels`: one table with every label."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scisci_gym.datasets.cli.labels import app
from scisci_gym.datasets.disruption import cd_index
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
