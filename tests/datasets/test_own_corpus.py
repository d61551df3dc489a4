"""`scisci-gym build table`: a dataset from two tables with any ids."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from scisci_gym.datasets.cli.labels import app as labels_app
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.store import load_papers

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def tables(small_works, tmp_path_factory):
    """The works of a snapshot as two tables, with names instead of numbers for ids."""
    works = read_works(small_works, progress=False)[0].to_pandas()
    papers = works.rename(columns={"publication_year": "year"}).assign(id=[f"own/{n}" for n in works.work_id])
    ends = works[["work_id", "referenced_works"]].explode("referenced_works").dropna().astype("int64")
    citations = pd.DataFrame(
        {"citing": "own/" + ends.work_id.astype(str), "cited": "own/" + ends.iloc[:, 1].astype(str)}
    )
    folder = tmp_path_factory.mktemp("tables")
    papers = papers.drop(columns=["work_id", "venue_id", "referenced_works", "is_paratext"])
    papers.to_csv(folder / "papers.csv", index=False)
    citations[citations.cited.isin(papers.id)].to_csv(folder / "citations.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def options():
    return ["--labels", "threshold", "--split", "publication", "--last-complete-year", 2019, "--quiet"]


@pytest.fixture
def build(command, options):
    def run(folder, out, *more):
        given = ["--papers", folder / "papers.csv", "--citations", folder / "citations.csv", "--out", out]
        return command("build", "table", *given, *options, *more)

    return run


def test_the_dataset_is_that_of_the_same_works_as_a_snapshot(build, command, options, small_works, tables, tmp_path):
    assert build(tables, tmp_path / "own").exit_code == 0
    assert command("build", "snapshot", small_works, "--out", tmp_path / "snapshot", *options).exit_code == 0
    for split in SPLITS:
        own, theirs = (
            [paper.to_row() for paper in load_papers(tmp_path / name, split)] for name in ("own", "snapshot")
        )
        assert len(own) > 20
        assert [row.pop("openalex_id") for row in own] == ["own/" + row.pop("openalex_id")[1:] for row in theirs]
        assert own == theirs
    checked = command("data", "verify", tmp_path / "own")
    assert checked.exit_code == 0, checked.output
    graph = tmp_path / "own" / "graph"
    done = CliRunner().invoke(
        labels_app,
        [str(graph), "--papers", str(graph / "papers.parquet"), "--samples", "5", "--out", str(tmp_path / "l.csv")],
    )
    assert done.exit_code == 0, done.output
    assert pd.read_csv(tmp_path / "l.csv").id[0] == "own/7000000001"


def test_missing_values_are_named_by_row_and_excluded_papers_carry_no_label(build, tables, tmp_path):
    papers = pd.read_csv(tables / "papers.csv", keep_default_na=False)
    assert build(tables, tmp_path / "all").exit_code == 0
    first, second, *_ = load_papers(tmp_path / "all", "train")
    papers.loc[papers.id == first.openalex_id, "abstract"] = ""
    papers["excluded"] = papers.id == second.openalex_id
    papers.to_csv(tmp_path / "papers.csv", index=False)
    (tmp_path / "citations.csv").write_bytes((tables / "citations.csv").read_bytes())
    done = build(tmp_path, tmp_path / "out")
    assert done.exit_code == 0, done.output
    row = papers.index[papers.id == first.openalex_id][0] + 1
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["source"]["missing"] == [
        "papers without abstract carry no label: 1 of 2,000, the first is "
        f"row {row} below the header (id {first.openalex_id})"
    ]
    assert (card["not_labelled"]["no_abstract"], card["not_labelled"]["excluded"]) == (1, 1)
    left = {paper.openalex_id for paper in load_papers(tmp_path / "out", "train")}
    assert not left & {first.openalex_id, second.openalex_id}


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "year",
            "1700",
            "papers.csv, row 3 below the header (id own/7000000003, year 1700): year is no year from 1800 to",
        ),
        ("authors_count", "many", "row 3 below the header (id own/7000000003): authors_count is 'many', not a whole"),
        ("excluded", "perhaps", "column 'excluded' of"),
    ],
)
def test_a_bad_value_is_named(build, tables, tmp_path, column, value, message):
    papers = pd.read_csv(tables / "papers.csv", keep_default_na=False, dtype=str).head(5)
    papers.loc[2, column] = value
    papers.to_csv(tmp_path / "papers.csv", index=False)
    (tmp_path / "citations.csv").write_text("citing,cited\n")
    done = build(tmp_path, tmp_path / "out")
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert message in done.output


def test_texts_are_needed_and_inputs_are_not_overwritten(build, tables, tmp_path):
    (tmp_path / "papers.csv").write_text("id,year,title\n1,2001,On it\n")
    (tmp_path / "citations.csv").write_text("citing,cited\n")
    assert "papers.csv has no column 'abstract', only id, year, title" in build(tmp_path, tmp_path / "out").output
    assert "could be overwritten" in build(tmp_path, tmp_path).output
