"""Snapshots: every layout OpenAlex publishes, checked against its manifest, restartable, the same from any reader."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.openalex import shards
from scisci_gym.datasets.openalex.merged_ids import DELETED_WORK, RetiredIds
from scisci_gym.datasets.openalex.record import work_row
from scisci_gym.datasets.openalex.shards import convert
from scisci_gym.datasets.openalex.snapshot import parts_of, read_works, works_folder
from scisci_gym.datasets.openalex.works_table import WorksTable


def record(number: int, *cited: int, **fields) -> dict:
    references = [f"https://openalex.org/W{n}" for n in cited]
    return {
        "id": f"https://openalex.org/W{number}",
        "publication_year": 2000,
        "title": f"Paper {number}",
        "referenced_works": references,
        **fields,
    }


def manifest(folder, **counts) -> None:
    entries = [
        {"url": f"s3://openalex/data/works/{name.replace('__', '/')}.gz", "meta": {"record_count": count}}
        for name, count in counts.items()
    ]
    (folder / "manifest").write_text(json.dumps({"entries": entries}))


def numbers(works: pa.Table) -> list[int]:
    return works["work_id"].to_pylist()


def test_hepth_is_read_whole_and_as_the_plain_reader_reads_it(hepth):
    works, dropped = read_works(hepth, progress=False)
    assert works.num_rows == 27_770
    assert not dropped
    rows = iter(works.to_pylist())
    for part in parts_of(hepth):
        with gzip.open(part.path) as stream:
            for line in stream:
                assert next(rows) == work_row(json.loads(line))


@pytest.mark.parametrize("below", ["works", "data/works", "data/jsonl/works", "works/updated_date=2026-01-01"])
def test_the_works_are_found_from_any_folder_above(tmp_path, snapshot_of, below):
    snapshot_of(tmp_path / below, [record(1)], "part_0000.gz")
    snapshot_of(tmp_path / below.replace("works", "authors"), [{"id": "https://openalex.org/A1"}], "part_0000.gz")
    assert numbers(read_works(tmp_path, progress=False)[0]) == [1] if "date" not in below else works_folder(tmp_path)


def test_records_of_the_expansion_pack_are_counted_not_kept(tmp_path, snapshot_of):
    works, dropped = read_works(snapshot_of(tmp_path, [record(1), record(2, is_xpac=True)]), progress=False)
    assert (numbers(works), dropped) == ([1], Counter(xpac=1))


def test_the_newest_record_of_a_work_wins(tmp_path, snapshot_of):
    snapshot_of(tmp_path, [record(1), record(2)], "updated_date=2025-01-01/part_0000.gz")
    snapshot_of(tmp_path, [record(1, title="Corrected")], "updated_date=2026-01-01/part_0000.gz")
    works, dropped = read_works(tmp_path, progress=False)
    assert dict(zip(numbers(works), works["title"].to_pylist(), strict=True)) == {1: "Corrected", 2: "Paper 2"}
    assert dropped == Counter(repeated_id=1)


def test_merged_and_deleted_works(tmp_path, snapshot_of):
    """1 was merged into 2, 2 into 3; 4 was merged into the work of all deleted works, 5 deleted."""
    snapshot_of(tmp_path / "data" / "works", [*(record(n) for n in (1, 2, 3, 4, 5)), record(6, 1, 2, 3, 4, 5)])
    merged = tmp_path / "data" / "merged_ids" / "works" / "2026-01-01.csv.gz"
    merged.parent.mkdir(parents=True)
    with gzip.open(merged, "wt", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(("merge_date", "id", "merge_into_id"))
        rows.writerows(
            [("2026-01-01", "W1", "W2"), ("2026-01-01", "W2", "W3"), ("2026-01-01", "W4", f"W{DELETED_WORK}")]
        )
    deleted = tmp_path / "data" / "deleted_ids" / "works" / "2026-01-01.csv"
    deleted.parent.mkdir(parents=True)
    deleted.write_text("id\nhttps://openalex.org/W5\n")
    works, dropped = read_works(tmp_path, progress=False)
    assert numbers(works) == [3, 6]
    assert works["referenced_works"].to_pylist()[1] == [3, 3, 3]
    assert dropped == Counter(merged_id=2, deleted_id=2)


def test_a_circle_of_merges_has_no_survivor():
    assert RetiredIds.of({1: 2, 2: 1}).into.tolist() == [-1, -1]


def test_the_manifest_is_believed_over_the_files(tmp_path, snapshot_of, command):
    snapshot_of(tmp_path / "works", [record(1), record(2)])
    manifest(tmp_path / "works", **{"updated_date=2026-01-01__part_0000": 3})
    with pytest.raises(BadInput, match="holds 2 records, its manifest says 3"):
        read_works(tmp_path, progress=False)
    works, dropped = read_works(tmp_path, progress=False, skip_bad=True)
    assert (works.num_rows, dropped) == (2, Counter(missing_record=1))
    manifest(tmp_path / "works", **{"updated_date=2026-01-01__part_0000": 2, "updated_date=2026-01-01__part_0001": 9})
    with pytest.raises(BadInput, match=r"1 of the parts in the manifest .* are missing, the first is .*part_0001"):
        parts_of(tmp_path)
    dropped = Counter()
    assert len(parts_of(tmp_path, skip_bad=True, dropped=dropped)) == 1
    assert dropped == Counter(missing_file=1)


def test_a_part_of_another_size_than_the_manifest_says(tmp_path, snapshot_of):
    snapshot_of(tmp_path, [record(1)])
    entry = {"url": "updated_date=2026-01-01/part_0000.gz", "meta": {"content_length": 5, "record_count": 1}}
    (tmp_path / "manifest").write_text(json.dumps({"entries": [entry]}))
    with pytest.raises(BadInput, match="its manifest says 5"):
        parts_of(tmp_path)


def test_a_combined_manifest_of_all_entities(tmp_path, snapshot_of):
    snapshot_of(tmp_path / "jsonl" / "works", [record(1)], "updated_date=2026-01-01/part_0000.gz")
    entries = [
        {"url": "s3://openalex/data/jsonl/authors/updated_date=2026-01-01/part_0000.gz", "record_count": 7},
        {"url": "s3://openalex/data/jsonl/works/updated_date=2026-01-01/part_0000.gz", "record_count": 1},
    ]
    (tmp_path / "jsonl" / "manifest.json").write_text(json.dumps({"works": {"entries": entries}}))
    assert [part.records for part in parts_of(tmp_path)] == [1]


def test_the_parquet_format_gives_the_same_works(tmp_path, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        records = [json.loads(line) for line in stream]
    for at, work in enumerate(records):
        work["abstract_inverted_index"] = json.dumps(work["abstract_inverted_index"])
        work["authorships"] = [{"author": {"id": f"A{at}"}}] * len(work["authorships"])
    part = tmp_path / "parquet" / "works" / "updated_date=2026-01-01" / "part_0000.parquet"
    part.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(records), part)
    assert read_works(tmp_path, progress=False)[0].equals(read_works(small_works, progress=False)[0])


def test_a_map_is_as_good_as_text_for_an_abstract(tmp_path):
    index = pa.array([[("b", [1]), ("a", [0])]], pa.map_(pa.string(), pa.list_(pa.int32())))
    table = pa.table({"id": ["https://openalex.org/W1"], "publication_year": [2000], "abstract_inverted_index": index})
    pq.write_table(table, tmp_path / "part_0000.parquet")
    assert read_works(tmp_path, progress=False)[0]["abstract"].to_pylist() == ["a b"]


def test_what_is_not_parquet(tmp_path):
    (tmp_path / "part_0000.parquet").write_text("hello")
    with pytest.raises(BadInput, match="cannot be read as parquet"):
        read_works(tmp_path, progress=False)


def three_parts(folder, snapshot_of) -> None:
    for at in range(3):
        snapshot_of(
            folder, [record(10 * at + n, 1, 2) for n in range(1, 9)], f"updated_date=2026-01-0{at + 1}/part_0000.gz"
        )


def test_parts_that_are_done_are_not_read_again(tmp_path, snapshot_of, monkeypatch):
    three_parts(tmp_path / "works", snapshot_of)
    parts = parts_of(tmp_path)
    first = convert(parts, tmp_path / "shards", progress=False)
    read = []
    monkeypatch.setattr(shards, "write_shard", lambda part, *_: read.append(part.name))
    assert convert(parts, tmp_path / "shards", progress=False) == first
    assert read == []
    monkeypatch.undo()
    snapshot_of(tmp_path / "works", [record(99)], "updated_date=2026-01-02/part_0000.gz")
    again = convert(parts_of(tmp_path), tmp_path / "shards", progress=False)
    assert [shard.rows for shard in again] == [8, 1, 8]


def test_a_stop_in_the_middle_of_a_part_leaves_the_finished_ones(tmp_path, snapshot_of):
    three_parts(tmp_path / "works", snapshot_of)
    broken = tmp_path / "works" / "updated_date=2026-01-03" / "part_0000.gz"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-20])
    with pytest.raises(BadInput, match="is damaged"):
        convert(parts_of(tmp_path), tmp_path / "shards", progress=False)
    left = sorted(path.name for path in (tmp_path / "shards").iterdir())
    assert left == ["part-00000.parquet", "part-00001.parquet"]
    broken.write_bytes(whole)
    assert [shard.rows for shard in convert(parts_of(tmp_path), tmp_path / "shards", progress=False)] == [8, 8, 8]


@pytest.mark.slow
def test_several_processes_write_the_same_shards_and_stop_at_damage(tmp_path, snapshot_of):
    three_parts(tmp_path / "works", snapshot_of)
    parts = parts_of(tmp_path)
    one = convert(parts, tmp_path / "one", workers=1, progress=False)
    part = tmp_path / "works" / "updated_date=2026-01-02" / "part_0000.gz"
    whole = part.read_bytes()
    part.write_bytes(b"no gzip")
    with pytest.raises(BadInput, match="is damaged"):
        convert(parts_of(tmp_path), tmp_path / "two", workers=2, progress=False)
    done = sorted(path.name for path in (tmp_path / "two").glob("*.parquet"))
    assert "part-00001.parquet" not in done
    part.write_bytes(whole)
    two = convert(parts_of(tmp_path), tmp_path / "two", workers=1, progress=False)
    assert [pq.read_table(shard.path) for shard in one] == [pq.read_table(shard.path) for shard in two]


def test_ray_spreads_the_parts(tmp_path, snapshot_of):
    pytest.importorskip("ray", reason="the extra scisci-gym[ray] is not installed")
    three_parts(tmp_path / "works", snapshot_of)
    parts = parts_of(tmp_path)
    plain = convert(parts, tmp_path / "plain", progress=False)
    spread = convert(parts, tmp_path / "spread", progress=False, ray_address="local")
    assert [shard.path.read_bytes() for shard in plain] == [shard.path.read_bytes() for shard in spread]


def test_shards_and_memory_hold_the_same_works(tmp_path, small_works):
    table, _ = read_works(small_works, progress=False)
    works = WorksTable.of_shards([s.path for s in convert(parts_of(small_works), tmp_path, progress=False)])
    assert works.to_table().equals(table)
    positions = [5, 1999, 0, 700, 5]
    chosen = works.rows(pa.array(positions).to_numpy(), ["work_id", "title"])
    assert chosen.equals(table.select(["work_id", "title"]).take(pa.array(positions)).combine_chunks())
    fields = table["field"].to_pylist()
    assert works.categories("field").to_pylist() == fields
