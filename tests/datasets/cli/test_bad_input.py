"""Broken input: one line that says what is wrong, or a counted drop. Never a traceback, never silently less."""

from __future__ import annotations

import gzip
import json

import pyarrow.parquet as pq
import pytest

from scisci_gym.datasets.openalex.shards import written_from


def good(number: int) -> dict:
    return {"id": f"https://openalex.org/W{number}", "publication_year": 2000, "title": "T", "referenced_works": []}


def shard_report(out) -> dict:
    """What the only shard of a dataset says about its part, and how many rows it has."""
    (shard,) = (out / "works").glob("*.parquet")
    return {**written_from(shard), "rows": pq.read_metadata(shard).num_rows}


def stops(result, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    text = " ".join(result.output.split())
    assert text.startswith("error:")
    for word in words:
        assert word in text


def test_a_missing_folder(command, tmp_path):
    stops(command("build", "snapshot", tmp_path / "none", "--out", tmp_path / "out"), "no folder", "none")


def test_a_file_instead_of_a_folder(command, tmp_path):
    (tmp_path / "file").write_text("")
    stops(command("build", "snapshot", tmp_path / "file", "--out", tmp_path / "out"), "is a file")


def test_a_memory_for_scores_that_are_not_computed(command, tmp_path):
    asked = ("build", "sciscinet", tmp_path, "--out", tmp_path / "out", "--memory")
    stops(command(*asked, "8GB"), "--memory", "published")
    stops(command(*asked, "8XB"), "give e.g. 8GB")


def test_an_empty_folder(command, tmp_path):
    (tmp_path / "in").mkdir()
    stops(command("build", "snapshot", tmp_path / "in", "--out", tmp_path / "out"), "no works in")


@pytest.mark.parametrize(
    ("lines", "reason", "words"),
    [
        ([json.dumps(good(1)), "{broken", json.dumps(good(2))], "not_json", ("not JSON", "line 2")),
        ([json.dumps(good(1)), json.dumps({"title": "no id"})], "no_id", ("is not an OpenAlex work id", "line 2")),
        ([json.dumps(good(1)), "[1]"], "not_an_object", ("must be a JSON object", "line 2")),
    ],
)
def test_a_damaged_line_stops_with_its_number_or_is_counted(command, tmp_path, lines, reason, words):
    part = tmp_path / "in" / "part_0000.gz"
    part.parent.mkdir()
    part.write_bytes(gzip.compress("\n".join(lines).encode()))
    stops(command("build", "snapshot", part.parent, "--out", tmp_path / "out"), "part_0000.gz", "--skip-bad", *words)
    result = command("build", "snapshot", part.parent, "--out", tmp_path / "out", "--skip-bad")
    stops(result, "no paper is eligible")
    report = shard_report(tmp_path / "out")
    assert report["dropped"] == {reason: 1}


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_truncated_archive_stops_or_keeps_what_came_before(command, tmp_path, small_works, kept):
    whole = next(small_works.rglob("*.gz")).read_bytes()
    part = tmp_path / "in" / "part_0000.gz"
    part.parent.mkdir()
    part.write_bytes(whole[: int(len(whole) * kept)])
    stops(command("build", "snapshot", part.parent, "--out", tmp_path / "out"), "is damaged after line", "--skip-bad")
    command("build", "snapshot", part.parent, "--out", tmp_path / "out", "--skip-bad", "--quiet")
    report = shard_report(tmp_path / "out")
    assert report["dropped"] == {"damaged_file": 1}
    assert 0 < report["rows"] < 2000


def test_what_is_not_gzip_at_all(command, tmp_path):
    part = tmp_path / "in" / "part_0000.gz"
    part.parent.mkdir()
    part.write_text("hello")
    stops(command("build", "snapshot", part.parent, "--out", tmp_path / "out"), "is damaged")


def test_references_to_works_that_are_not_there_are_counted(command, tmp_path, snapshot_of, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        works = [json.loads(line) for line in stream]
    works[-1]["referenced_works"] += ["https://openalex.org/W1", "https://openalex.org/W2", None, "nonsense"]
    result = command("build", "snapshot", snapshot_of(tmp_path / "in", works), "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["citations"]["unknown"] == 2
    assert "2 point to works that are not in the data" in (tmp_path / "out" / "README.md").read_text()


def test_null_titles_and_abstracts_are_counted(command, tmp_path, snapshot_of, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        works = [json.loads(line) for line in stream]
    works[700]["title"] = works[700]["display_name"] = None
    works[701]["abstract_inverted_index"] = None
    result = command("build", "snapshot", snapshot_of(tmp_path / "in", works), "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert (card["not_labelled"]["no_title"], card["not_labelled"]["no_abstract"]) == (1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", "0"), ("window must be at least 1",)),
        (("--threshold", "1.5"), ("threshold must be in [0, 1)",)),
        (("--split-years", "1990,2000"), ("four years",)),
        (("--split-years", "2000,2002,2003,2004"), ("--split publication",)),
        (("--cutoff", "June"), ("--cutoff takes a date",)),
        (("--language", "xx"), ("no paper is eligible", "other_language")),
    ],
)
def test_options_that_do_not_go_together(command, tmp_path, small_works, options, words):
    stops(command("build", "snapshot", small_works, "--out", tmp_path / "out", *options), *words)


def test_an_out_folder_that_is_not_a_dataset(command, tmp_path):
    stops(command("data", "verify", tmp_path), "is not a dataset", "scisci-gym build")
