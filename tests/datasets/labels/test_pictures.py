"""`scisci-gym labels --plot`: what the pictures show, by hand on small tables, and what is written."""

import re

import matplotlib.image
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from scisci_gym.datasets.cli.labels import app
from scisci_gym.datasets.disruption import cd_index
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels import pictures
from scisci_gym.datasets.labels.pictures import FILES, NAMES
from scisci_gym.datasets.labels.summaries import (
    artefacts,
    atypicality_map,
    cd_by_year_and_field,
    cd_over_windows,
    most_cited,
    places_of,
)

NAN = float("nan")
TABLE = pa.table(
    {
        "id": ["a", "b", "c", "d", "e", "f"],
        "year": pa.array([1990, 1990, 1990, 1991, 1991, 1999], pa.int16()),
        "references": [0, 2, 2, 3, 3, 4],
        "citations": [9, 4, 5, 6, 1, 8],
        "eligible": [False, True, True, True, False, False],
        "cd": [1.0, 0.2, -0.4, 1.0, NAN, -1.0],
        "field": ["x", "x", "", "x", "x", "x"],
        "coverage": [NAN, 0.5, 1.0, 0.25, 0.75, 1.0],
    }
)


def test_cd_by_year_and_field_counts_papers_with_references_and_a_closed_window():
    rows = cd_by_year_and_field(TABLE, 5, 2000).set_index(["field", "year"])
    assert rows.papers.to_dict() == {
        ("all fields", 1990): 2,
        ("all fields", 1991): 1,
        ("unknown", pd.NA): 1,
        ("x", pd.NA): 2,
        ("unknown", 1990): 1,
        ("x", 1990): 1,
        ("x", 1991): 1,
    }
    first = rows.loc[("all fields", 1990)]
    assert first["mean"] == pytest.approx(-0.1)
    assert first.p50 == pytest.approx(-0.1)
    assert first.p25 == pytest.approx(-0.25)
    # The standard error of 0.2 and -0.4 is 0.3.
    assert first.mean_high - first["mean"] == pytest.approx(1.96 * 0.3)
    assert np.isnan(rows.loc[("all fields", 1991)].mean_low)


def test_artefacts_are_papers_without_references_and_open_windows():
    rows = artefacts(TABLE, 5, 2000).set_index("year")
    assert rows.without_references.tolist() == pytest.approx([1 / 3, 0, 0])
    assert rows.with_cd.tolist() == [3, 1, 1]
    assert rows.cd_is_1.tolist() == pytest.approx([1 / 3, 1, 0])
    assert rows.cd_is_1_without_references.tolist() == pytest.approx([1 / 3, 0, 0])
    assert rows.mean_cd.tolist() == pytest.approx([0.8 / 3, 1, -1])
    assert rows.mean_cd_with_references.tolist() == pytest.approx([-0.1, 1, -1])
    assert rows.window_closed.tolist() == [True, True, False]
    assert rows.coverage.tolist() == [0.75, 0.5, 1.0]


def test_the_four_kinds_of_uzzi_and_their_hits():
    table = pa.table(
        {
            "year": [1990] * 4 + [1991] * 3,
            "z10": [-1.0, -2.0, 1.0, 0.0, -1.0, 2.0, NAN],
            "z_median": [5.0, 1.0, 4.0, 2.0, 1.0, 9.0, NAN],
            "citation_percentile": [0.96, 0.5, 0.97, NAN, 0.1, 0.2, 0.99],
        }
    )
    cells, kinds = atypicality_map(table)
    assert kinds.novelty.tolist() == ["high", "high", "low", "low"]
    assert kinds.conventionality.tolist() == ["high", "low", "high", "low"]
    assert kinds.papers.tolist() == [1, 2, 2, 1]  # the medians of the years are 3 and 5
    assert kinds.with_percentile.tolist() == [1, 2, 2, 0]
    assert kinds.hit_share.tolist()[:3] == [1.0, 0.0, 0.5]
    assert kinds.hit_low[2] == pytest.approx(0.0945, abs=1e-4)  # Wilson's interval of 1 in 2
    assert cells.papers.sum() <= 6
    inside = (cells.z_median_low <= 4) & (cells.z_median_high >= 4) & (cells.z10_low <= 1) & (cells.z10_high >= 1)
    assert cells.papers[inside].tolist() == [1]


@pytest.fixture(scope="module")
def graph():
    """400 papers of 1990 to 2009; each but those of the first year cites six of earlier years."""
    rng = np.random.default_rng(3)
    years = 1990 + np.arange(400) // 20
    citing = np.repeat(np.arange(20, 400), 6)
    cited = (rng.random(citing.size) * (citing // 20 * 20)).astype(int)
    return CitationGraph.from_edges(citing, cited, years, [f"P{i}" for i in range(400)])


def test_a_paper_over_windows_and_its_peers(graph):
    fields = np.where(np.arange(400) % 2 == 0, "even", "odd")
    columns = {"id": graph.node_ids, "year": graph.years, "references": graph.reference_counts, "field": fields}
    rows = cd_over_windows(pa.table(columns), graph, [30], 25, 2009)
    assert rows.window.tolist() == list(range(1, 19))
    like = (graph.years == 1991) & (fields == "even")
    for window in (1, 7, 18):
        row, cd = rows[rows.window == window].iloc[0], cd_index(graph, window)
        assert (row.id, row.publication_year, row.field) == ("P30", 1991, "even")
        assert row.cd == pytest.approx(cd[30], nan_ok=True)
        peers = cd[like & ~np.isnan(cd)]
        assert (row.peers, row["median"]) == (peers.size, pytest.approx(np.median(peers)))


def test_who_is_followed(graph):
    assert most_cited(TABLE) == [3]
    assert places_of(graph, ["P7", "P300"], 2009) == [7, 300]
    with pytest.raises(ValueError, match=r"--plot-paper W1: no paper of the graph has this id; ids are such as P0"):
        places_of(graph, ["W1"], 2009)
    with pytest.raises(ValueError, match=r"--plot-paper P399 is of 2009, and the last complete year is 2009"):
        places_of(graph, ["P399"], 2009)


@pytest.fixture(scope="module")
def written(graph, tmp_path_factory):
    """A function that runs the command on a table of papers with some columns."""
    folder = tmp_path_factory.mktemp("tables")
    graph.save(folder / "graph")
    rng = np.random.default_rng(4)
    extra = {"venue": rng.integers(8, size=400), "field": rng.choice(["$x$", "y", "z"], 400)}
    extra["reference_count"] = graph.reference_counts + 2
    pd.DataFrame({"id": graph.node_ids, **extra}).to_csv(folder / "papers.csv", index=False)
    pd.DataFrame({"id": graph.node_ids, "excluded": False}).to_csv(folder / "bare.csv", index=False)

    def run(out, *more, papers="papers.csv"):
        given = [str(folder / "graph"), "--papers", str(folder / papers), "--out", str(folder / "labels.csv")]
        return CliRunner().invoke(app, [*given, "--samples", "5", "--plot", str(out), *more])

    return run


def test_every_picture_has_its_table_and_a_text(written, tmp_path):
    out = tmp_path / "pictures"
    done = written(out, "--plot-paper", "P30", "--plot-paper", "P50", "--trajectory", "4")
    assert done.exit_code == 0, done.output
    assert f"pictures and their tables -> {out}" in done.output
    assert {path.name for path in out.iterdir()} == FILES
    page = (out / "README.md").read_text()
    shown = {name: alt for alt, name in re.findall(r"!\[(.+)\]\((\w+)\.png\)", page)}
    assert set(shown) == set(NAMES)
    for name, alt in shown.items():
        assert f"[{name}.csv]({name}.csv)" in page
        pixels = matplotlib.image.imread(out / f"{name}.png")
        assert pixels.shape[1] > 600
        assert pixels[..., :3].std() > 0.02  # something is drawn
        mean = re.search(r"-?\d\.\d{3}|\d+\.\d%", alt)
        assert mean, alt  # the text tells a result, not only what the picture is
    followed = pd.read_csv(out / "cd_trajectory.csv")
    assert (followed.id.unique().tolist(), followed.window.max()) == (["P30", "P50"], 4)
    assert set(pd.read_csv(out / "cd_by_year_and_field.csv").field) == {"all fields", "$x$", "y", "z"}


def test_years_on_an_axis_are_whole():
    def two_years(axes):
        axes.plot([1992, 1993], [0, 1])
        axes.set(xlabel="year of publication")

    (axes,) = pictures._figure([two_years]).axes
    assert {1992, 1993} <= {*axes.get_xticks().tolist()}
    assert all(tick.is_integer() for tick in axes.get_xticks().tolist())


def test_what_cannot_be_drawn_is_said_and_does_not_stay(written, tmp_path):
    assert written(tmp_path).exit_code == 0
    done = written(tmp_path, "--min-citations", "99", papers="bare.csv")
    assert done.exit_code == 0, done.output
    assert "no trajectory: no paper is eligible; name one with --plot-paper" in done.output
    assert "no map of atypicality: no paper cites two references of known venues" in done.output
    left = {path.stem for path in tmp_path.iterdir()}
    assert left == {"README", "cd_by_year_and_field", "artefacts"}


def test_no_folder_of_another_kind_is_written_to(written, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    done = written(tmp_path)
    assert (done.exit_code, (tmp_path / "README.md").read_text()) == (2, "mine")
    assert "holds README.md and no artefacts.csv" in done.output
    done = CliRunner().invoke(app, ["graph", "--plot-paper", "P1"])
    assert (done.exit_code, "give the folder of the pictures with --plot" in done.output) == (2, True)
