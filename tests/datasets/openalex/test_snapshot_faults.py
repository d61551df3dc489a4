"""What can be wrong with a snapshot on disk: one line says which file, what, and what to do; --skip-bad counts it."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.openalex.snapshot import parts_of, read_works


def record(number: int, *cited: int, **fields) -> dict:
    references = [f"https://openalex.org/W{n}" for n in cited]
    return {"id": f"https://openalex.org/W{number}", "publication_year": 2000, "referenced_works": references, **fields}


def numbers(folder, **options) -> list[int]:
    return read_works(folder, progress=False, **options)[0]["work_id"].to_pylist()


def test_a_damaged_page_of_parquet_ends_its_part(tmp_path):
    """The first of two row groups is whole, in the second one byte of a title has changed."""
    path = tmp_path / "part_0000.parquet"
    rows = [record(n, title=f"Title {n} of some length") for n in range(1, 9)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=4, compression="none", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index(b"Title 6")] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"part_0000.parquet cannot be read as parquet after row \d+ .*; fetch it again"):
        read_works(tmp_path, progress=False)
    works, dropped = read_works(tmp_path, progress=False, skip_bad=True)
    assert dropped == Counter(damaged_file=1)
    assert works["work_id"].to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize("at", [0.1, 0.3, 0.5, 0.7])
def test_parquet_that_was_overwritten_in_the_middle(tmp_path, at, command):
    path = tmp_path / "works" / "part_0000.parquet"
    path.parent.mkdir()
    rows = [record(n, n - 1, title=f"Title {n}" * 20) for n in range(1, 3000)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    content = bytearray(path.read_bytes())
    start = int(len(content) * at)
    content[start : start + 400] = b"\xff" * 400
    path.write_bytes(content)
    result = command("build", "snapshot", tmp_path / "works", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2, result.output
    assert "part_0000.parquet cannot be read as parquet" in result.output


def test_a_year_of_22_digits(tmp_path, snapshot_of):
    works = [record(1), record(2, publication_year=10**21), record(3, publication_year=-(10**21))]
    read, dropped = read_works(snapshot_of(tmp_path, works), progress=False, skip_bad=True)
    assert (read["work_id"].to_pylist(), dropped) == ([1], Counter(no_year=2))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "2026-01-01.csv.gz",
            gzip.compress(b"merge_date,id,merge_into_id\n2026-01-01,W1,W2\n" * 99)[:-9],
            "is damaged",
        ),
        ("2026-01-01.csv.gz", b"", "has no column id"),
        ("2026-01-01.csv.gz", b"id,merge_into_id\n", "is damaged"),
        ("2026-01-01.csv", b"merge_date,id,merge_into_id\n2026-01-01,W1", "ends in the middle of line 2"),
        ("2026-01-01.csv", b"id\nW1\xff", "is damaged"),
    ],
    ids=("cut", "no byte", "no gzip", "cut line", "no text"),
)
def test_a_list_of_merged_ids_that_was_cut_off(tmp_path, snapshot_of, command, name, content, words):
    snapshot_of(tmp_path / "data" / "works", [record(1), record(2)])
    merged = tmp_path / "data" / "merged_ids" / "works" / name
    merged.parent.mkdir(parents=True)
    merged.write_bytes(content)
    result = command("build", "snapshot", tmp_path / "data", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2, result.output
    line = " ".join(result.output.split())
    assert words in line
    assert name in line
    assert line.endswith("fetch it again or remove it")


@pytest.mark.parametrize("folder", [".", "..", "../works", "updated_date=2026-01-01/.."])
def test_the_folder_is_named_from_inside_it(tmp_path, snapshot_of, monkeypatch, folder):
    works = snapshot_of(tmp_path / "works", [record(1), record(2, 1), record(3)])
    entries = [{"url": "s3://openalex/data/works/updated_date=2026-01-01/part_0000.gz", "meta": {"record_count": 3}}]
    (works / "manifest").write_text(json.dumps({"entries": entries}))
    merged = tmp_path / "merged_ids" / "works" / "2026-01-01.csv"
    merged.parent.mkdir(parents=True)
    merged.write_text("id,merge_into_id\nW1,W3\n")
    monkeypatch.chdir(works)
    assert [part.records for part in parts_of(Path(folder))] == [3]
    assert numbers(Path(folder)) == [2, 3]


@pytest.mark.parametrize("name", ["part_0001.gz", "part_0001.jsonl", "part_0001.parquet"])
def test_a_part_without_a_byte(tmp_path, snapshot_of, name):
    snapshot_of(tmp_path / "works", [record(1)], "part_0000.gz")
    (tmp_path / "works" / name).touch()
    with pytest.raises(BadInput, match=rf"{name} is empty \(0 bytes\); fetch it again, or pass --skip-bad"):
        read_works(tmp_path, progress=False)
    works, dropped = read_works(tmp_path, progress=False, skip_bad=True)
    assert (works.num_rows, dropped) == (1, Counter(damaged_file=1))


def published(root, parquet_works: list[dict], json_works: list[dict], snapshot_of) -> None:
    """A snapshot in the layout of 2026: both formats with a manifest each, and a list of deleted works in each."""
    day = "updated_date=2026-06-24"
    snapshot_of(root / "data" / "jsonl" / "works", json_works, f"{day}/part_0000.gz")
    part = root / "data" / "parquet" / "works" / day / "part_0000.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(parquet_works), part)
    for kind, works, suffix in (("jsonl", json_works, "gz"), ("parquet", parquet_works, "parquet")):
        folder = root / "data" / kind / "works"
        url = f"s3://openalex/data/{kind}/works/{day}/part_0000.{suffix}"
        size = (folder / day / f"part_0000.{suffix}").stat().st_size
        files = [{"url": url, "meta": {"content_length": size, "record_count": len(works)}}]
        named = {"date": "2026-06-26", "format": kind, "entity": "works", "record_count": len(works), "files": files}
        (folder / "manifest.json").write_text(json.dumps(named))
        (folder / "deleted_ids.csv.gz").write_bytes(gzip.compress(b"work_id,deleted_date\nW9,2026-08-14\n"))


def test_the_layout_of_2026(tmp_path, snapshot_of):
    """Parquet is taken before JSON lines, the list of deleted works is no part, and XPAC stays out."""
    parquet = [record(1, is_xpac=False), record(2, 1, is_xpac=False), record(3, is_xpac=True), record(4, is_xpac=False)]
    published(tmp_path, parquet, [record(8)], snapshot_of)
    merged = tmp_path / "legacy-data" / "merged_ids" / "works" / "2025-11-01.csv.gz"
    merged.parent.mkdir(parents=True)
    merged.write_bytes(gzip.compress(b"merge_date,id,merge_into_id\n2025-11-01,W1,W4\n"))
    assert [(part.path.suffix, part.records) for part in parts_of(tmp_path)] == [(".parquet", 4)]
    works, dropped = read_works(tmp_path, progress=False)
    assert (works["work_id"].to_pylist(), dropped) == ([2, 4], Counter(xpac=1, merged_id=1))
    assert works["referenced_works"].to_pylist() == [[4], []]
    assert numbers(tmp_path / "data" / "jsonl") == [8]
