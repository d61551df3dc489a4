"""SciSciNet-v2 as it is published: tables are joined, types are read as they are found, or refused by name."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sciscinet_file import FIELDS, PAPER_COLUMNS, write_published

from scisci_gym.datasets.sciscinet.tables import fields_of
from scisci_gym.datasets.store import load_card, load_papers

SPLITS = ("train", "validation", "test")
PAPERS, TEXTS = "sciscinet_papers.parquet", "sciscinet_papertitleabstract.parquet"
LINKS, NAMES = "sciscinet_paperfields.parquet", "sciscinet_fields.parquet"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return write_published(tmp_path_factory.mktemp("published") / "v2", 4000)


@pytest.fixture
def copied(tables, tmp_path):
    """The tables in a folder that a test may change."""
    return shutil.copytree(tables[0], tmp_path / "v2")


def changed(path, name, values) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, values), path)


def build(command, *arguments) -> str:
    """The hash of the dataset."""
    result = command("build", "sciscinet", *arguments, "--quiet")
    assert result.exit_code == 0, result.output
    return load_card(arguments[-1])["content_hash"]


def refusal(command, *arguments) -> str:
    result = command("build", "sciscinet", *arguments, "--quiet")
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.output.split())


def test_the_joined_tables_give_what_one_table_gives(tables, tmp_path, command):
    folder, one_file = tables
    assert pq.read_schema(folder / PAPERS).names == PAPER_COLUMNS
    joined = build(command, folder, "--out", tmp_path / "joined")
    fields = ("--fields", folder / LINKS, "--field-names", folder / NAMES)
    assert joined == build(command, one_file, *fields, "--out", tmp_path / "one")
    assert joined == build(command, folder / PAPERS, "--texts", folder / TEXTS, *fields, "--out", tmp_path / "each")
    cards = [load_card(tmp_path / name) for name in ("joined", "one")]
    assert cards[0]["not_labelled"] == cards[1]["not_labelled"]
    assert cards[0]["not_labelled"]["no_title"] > 300
    assert command("data", "verify", tmp_path / "joined").exit_code == 0


def test_retraction_type_date_and_team_are_used(tables, tmp_path, command):
    rows = {row["paperid"]: row for row in pq.read_table(tables[0] / PAPERS).to_pylist()}
    build(command, tables[0], "--out", tmp_path)
    papers = [paper for split in SPLITS for paper in load_papers(tmp_path, split)]
    for paper in papers:
        row = rows[paper.openalex_id]
        assert not row["is_retracted"]
        assert row["doctype"] not in ("paratext", "editorial")
        assert paper.authors_count == (row["team_size"] or 0)
        day = row["date"] if row["date"] and row["date"].year == row["year"] else ""
        assert paper.publication_date == str(day)
        assert paper.primary_field in FIELDS
    assert sum(bool(paper.publication_date) for paper in papers) > 0.7 * len(papers)
    left = load_card(tmp_path)["not_labelled"]
    assert min(left["retracted"], left["paratext"], left["not_an_article"]) > 50


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("date", pa.string()),
        ("date", pa.timestamp("us")),
        ("date", pa.timestamp("ns", "UTC")),
        ("year", pa.float64()),
        ("year", pa.string()),
        ("team_size", pa.float64()),
        ("C5", pa.uint64()),
        ("disruption", pa.float32()),
        ("is_retracted", pa.int8()),
        ("doctype", pa.large_string()),
        ("doi", pa.dictionary(pa.int32(), pa.string())),
        ("paperid", pa.uint64()),
        ("paperid", pa.float64()),
    ],
    ids=str,
)
def test_every_type_is_read(copied, tmp_path, command, name, kind):
    papers = pq.read_table(copied / PAPERS)
    if name == "disruption":
        changed(copied / PAPERS, name, papers[name].cast(kind).cast(pa.float64()))
    expected = build(command, copied, "--out", tmp_path / "plain")
    values = papers[name]
    if name == "paperid":
        values = pa.array([int(paper[1:]) for paper in values.to_pylist()])
    changed(copied / PAPERS, name, values.cast(kind))
    assert build(command, copied, "--out", tmp_path / "cast") == expected


@pytest.mark.parametrize(
    ("table", "name", "values", "words"),
    [
        (PAPERS, "year", pa.array([[2000]] * 4000), "column year has the type list"),
        (PAPERS, "date", pa.array([1.5] * 4000), "column date has the type double; it must hold dates"),
        (PAPERS, "is_retracted", pa.array(["no"] * 4000), "column is_retracted has the type string; it must hold true"),
        (PAPERS, "doctype", pa.array([1] * 4000), "column doctype has the type int64; it must hold texts"),
        (PAPERS, "paperid", pa.array([b"W1"] * 4000), "column paperid has the type binary; it must hold ids of works"),
        (PAPERS, "team_size", pa.array(["many"] * 4000), "column team_size must hold numbers"),
        (TEXTS, "title", pa.array([1] * 0), "column title has the type int64; it must hold texts"),
        (LINKS, "score_openalex", pa.array([True] * 12000), "column score_openalex has the type bool"),
        (NAMES, "level", pa.array([["0"]] * 8), "column level has the type list"),
    ],
)
def test_a_type_that_cannot_be_read_is_refused_by_name(copied, tmp_path, command, table, name, values, words):
    rows = pq.read_metadata(copied / table).num_rows
    changed(copied / table, name, values if len(values) else pa.array([1] * rows))
    line = refusal(command, copied, "--out", tmp_path / "out")
    assert f"{copied / table}: {words}" in line


def test_tables_that_are_missing_are_named(copied, tmp_path, command):
    out = ("--out", tmp_path / "out")
    (copied / NAMES).rename(tmp_path / NAMES)
    assert "SciSciNet-v2 names the fields in sciscinet_fields.parquet: give that with --field-names" in refusal(
        command, copied, *out
    )
    build(command, copied, "--field-names", tmp_path / NAMES, *out)
    (copied / TEXTS).unlink()
    line = refusal(command, copied, *out)
    assert "has no column title, only paperid, doi" in line
    assert f"SciSciNet-v2 has titles and abstracts in {TEXTS}: give that with --texts" in line
    (copied / PAPERS).unlink()
    assert f"no {PAPERS} in {copied}; give the folder with the tables" in refusal(command, copied, *out)


@pytest.mark.parametrize("table", [PAPERS, TEXTS, LINKS])
def test_a_damaged_page_is_named(copied, tmp_path, command, table):
    path = copied / table
    content = bytearray(path.read_bytes())
    content[4000:4600] = b"\xff" * 600
    path.write_bytes(content)
    line = refusal(command, copied, "--out", tmp_path / "out")
    assert f"{path} cannot be read after row" in line


def test_the_field_with_the_highest_score_then_the_first_by_name(tmp_path):
    names = pa.table({"fieldid": ["C1", "C2", "C3"], "display_name": ["Art", "Biology", "Cells"], "level": [0, 0, 1]})
    pq.write_table(names, tmp_path / "names.parquet")
    links = {
        "paperid": ["W1", "W1", "W2", "W2", "W3", "W4", "W1", "W5", "W5"],
        "fieldid": ["C1", "C2", "C2", "C1", "C3", "https://openalex.org/C2", "C3", None, "C2"],
        "score_openalex": [0.3, 0.5, 0.4, 0.4, 0.9, None, 1.0, 1.0, 0.1],
    }
    pq.write_table(pa.table(links), tmp_path / "links.parquet", row_group_size=2)
    papers = np.array([5, 4, 3, 2, 1])
    found = fields_of(papers, tmp_path / "links.parquet", tmp_path / "names.parquet", 0)
    assert found == ["Biology", "Biology", "", "Art", "Biology"]
