"""SciSciNet: its published scores become labels, gaps and all, in bounded memory."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sciscinet_file import FIELDS, write_sciscinet

from scisci_gym.datasets.card import REASONS
from scisci_gym.datasets.openalex.record import abstract_from_inverted_index, normalised_doi
from scisci_gym.datasets.store import load_card, load_papers

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_sciscinet(tmp_path_factory.mktemp("sciscinet") / "papers.parquet", 6000, abstract_words=30)


@pytest.fixture
def built(source, tmp_path, command):
    result = command("build", "sciscinet", source[0], "--fields", source[1], "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    return tmp_path / "out"


def test_papers_carry_the_published_columns(source, built):
    rows = {row["paperid"]: row for row in pq.read_table(source[0]).to_pylist()}
    z10 = {year: [r["Atyp_10pct_Z"] for r in rows.values() if r["year"] == year] for year in (1990,)}
    known = [z for z in z10[1990] if z is not None]
    for split in SPLITS:
        for paper in load_papers(built, split):
            row = rows[paper.openalex_id]
            assert paper.title == row["title"]
            assert paper.abstract == abstract_from_inverted_index(json.loads(row["abstract_inverted_index"]))
            assert (paper.cd_index, paper.publication_year) == (row["disruption"], row["year"])
            assert (paper.reference_count, paper.cited_by_count) == (row["reference_count"], row["citation_count"])
            assert paper.doi == normalised_doi(row["doi"])
            assert paper.primary_field == FIELDS[(int(paper.openalex_id[1:]) - 1_000_000) % 3]
            assert paper.cd_window is None
            assert (paper.novelty_score is None) == (row["Atyp_10pct_Z"] is None)
            if row["year"] == 1990 and row["Atyp_10pct_Z"] is not None:
                assert paper.novelty_score == pytest.approx(np.mean([z > row["Atyp_10pct_Z"] for z in known]))


def test_every_record_is_accounted_for(source, built):
    card = load_card(built)
    labelled = sum(share["papers"] for share in card["splits"].values())
    left_out = {**card["works_dropped"], **card["not_labelled"]}
    assert labelled + sum(left_out.values()) == card["works_read"] == 6000
    assert set(left_out) <= set(REASONS)


def test_papers_are_in_publication_order_and_verify_holds(built, command):
    for split in SPLITS:
        years = [paper.publication_year for paper in load_papers(built, split)]
        assert years == sorted(years)
    result = command("data", "verify", built)
    assert result.exit_code == 0, result.output
    table = pq.read_table(built / "published.parquet")
    wrong = pa.array(np.roll(table["disruption"].to_numpy(), 1))
    pq.write_table(
        table.set_column(table.schema.get_field_index("disruption"), "disruption", wrong), built / "published.parquet"
    )
    result = command("data", "verify", built)
    assert result.exit_code == 1
    assert "fails  labels from the published columns" in result.output


def test_the_same_file_gives_the_same_bytes(source, built, command, tmp_path):
    command("build", "sciscinet", source[0], "--fields", source[1], "--out", tmp_path / "again", "--quiet")
    for name in ("data/train-00000-of-00001.parquet", "published.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (built / name).read_bytes()


def test_the_card_says_that_the_published_score_has_no_window(built):
    text = (built / "README.md").read_text()
    assert "the published disruption score, which looks at all later citations" in text
    assert "the published score has no window" in text


def test_ids_of_all_kinds(tmp_path, command):
    table = pq.read_table(write_sciscinet(tmp_path / "papers.parquet", 3000, abstract_words=5)[0])
    numbers = pa.array([int(paper[1:]) for paper in table["paperid"].to_pylist()])
    pq.write_table(table.set_column(0, "paperid", numbers), tmp_path / "numbers.parquet")
    for name in ("papers", "numbers"):
        command("build", "sciscinet", tmp_path / f"{name}.parquet", "--out", tmp_path / name, "--quiet")
    assert load_card(tmp_path / "papers")["content_hash"] == load_card(tmp_path / "numbers")["content_hash"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("none.parquet",), "no file"),
        (("text.parquet",), "cannot be read as parquet"),
        (("narrow.parquet",), "has no column year, disruption, title"),
        (("papers.parquet", "--fields", "fields.parquet", "--field-level", "7"), "no field of level 7"),
        (("papers.parquet", "--language", "xx"), "no paper is eligible"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, command, options, words):
    write_sciscinet(tmp_path / "papers.parquet", 500, abstract_words=5)
    (tmp_path / "text.parquet").write_text("hello")
    pq.write_table(pa.table({"paperid": [1]}), tmp_path / "narrow.parquet")
    arguments = [str(tmp_path / o) if o.endswith(".parquet") else o for o in options]
    result = command("build", "sciscinet", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())


NOTHINGS = [
    None,
    "",
    "null",
    "{}",
    "[]",
    "None",
    "nan",
    " ",
    '"null"',
    '{"null": [0]}',
    '{" ": [0, 1]}',
    '{"a": []}',
    '{"a": [',
]


def test_an_abstract_or_title_that_says_nothing_is_none_and_is_counted(tmp_path, command):
    """SciSciNet writes the word null; whatever else stands for nothing is no abstract either."""
    table = pq.read_table(write_sciscinet(tmp_path / "papers.parquet", 3000, abstract_words=5)[0])
    rows = table.to_pylist()
    titles = [None, "", "null", "None", "NaN", " ", "N/A"]
    for at, row in enumerate(rows):
        if at % 3 == 1:
            row["abstract_inverted_index"] = NOTHINGS[at % len(NOTHINGS)]
        if at % 3 == 2:
            row["title"] = titles[at % len(titles)]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), tmp_path / "papers.parquet")
    result = command("build", "sciscinet", tmp_path / "papers.parquet", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    papers = [paper for split in SPLITS for paper in load_papers(tmp_path / "out", split)]
    assert papers
    assert all(paper.abstract and (int(paper.openalex_id[1:]) - 1_000_000) % 3 == 0 for paper in papers)
    left = load_card(tmp_path / "out")["not_labelled"]
    assert left["no_title"] >= 990
    assert left["no_abstract"] >= 990


def test_verify_finds_shifted_cuts_and_another_novelty(source, tmp_path, command):
    options = ("--labels", "quantile", "--min-references", 0, "--min-citations", 0, "--quiet")
    result = command("build", "sciscinet", source[0], "--fields", source[1], "--out", tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert command("data", "verify", tmp_path).exit_code == 0
    card = load_card(tmp_path)
    for cut in card["cuts"]:
        cut[2:] = [value + 0.05 for value in cut[2:]]
    (tmp_path / "card.json").write_text(json.dumps(card))
    table = pq.read_table(tmp_path / "published.parquet")
    at = table.schema.get_field_index("z10")
    pq.write_table(table.set_column(at, "z10", table["z_median"]), tmp_path / "published.parquet")
    result = command("data", "verify", tmp_path)
    assert "fails  cuts between tertiles" in result.output
    assert "fails  labels from the published columns" in result.output


@pytest.mark.parametrize(
    ("title", "reason"), [("RETRACTED: A title", "withdrawn"), ("Erratum: A title", "not_an_article")]
)
def test_titles_that_were_changed_later_carry_no_label(tmp_path, command, title, reason):
    papers, links = write_sciscinet(tmp_path / "papers.parquet", 3000, abstract_words=5)
    table = pq.read_table(papers)
    titles = [title if at < 300 else value for at, value in enumerate(table["title"].to_pylist())]
    pq.write_table(table.set_column(table.schema.get_field_index("title"), "title", pa.array(titles)), papers)
    result = command("build", "sciscinet", papers, "--fields", links, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    assert load_card(tmp_path / "out")["not_labelled"][reason] > 250
    assert not any(paper.title == title for split in SPLITS for paper in load_papers(tmp_path / "out", split))
