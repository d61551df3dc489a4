"""A damaged file is named, with what to do about it."""

import json
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from scisci_gym.datasets.cli.openalex import _last_closed_year
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.graph.citation_graph import CitationGraph
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.shards import WRITTEN_FROM, convert
from scisci_gym.datasets.openalex.snapshot import parts_of
from scisci_gym.datasets.store import load_card, load_papers, save_dataset, split_file
from scisci_gym.datasets.verify import CARD, verify
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.recipes.experiments.runner import is_resumed
from scisci_gym.recipes.kit.config import tiny_notes

READERS = {
    "card.json": load_card,
    "graph.json": CitationGraph.load,
    "pages/started.json": _last_closed_year,
    "plan.json": lambda folder: is_resumed(folder, "plan.json", {}, "delete it"),
    "init_report.json": tiny_notes,
}


NEEDED = {
    "card.json": (verify, {name: kind() for name, kind in CARD.items()}),
    "graph.json": (CitationGraph.load, {"format": 1, "n_papers": 0, "report": {}}),
    "pages/started.json": (_last_closed_year, {"date": "2026-01-31"}),
}
"""What a build or a check reads back, with every key that it needs."""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", ['{"a": ', "", "\ud800", "[]", "3", "null", '"text"'])
def test_the_file_is_named(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadInput, match=rf"{path.name} is damaged: .*; \w+"):
        READERS[name](tmp_path)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, (_, content) in NEEDED.items() for key in content])
@pytest.mark.parametrize(
    "change", [lambda content, key: content.pop(key), lambda content, key: content.update({key: [1]})]
)
def test_a_key_that_is_missing_or_of_another_type_is_named(name: str, key: str, change, tmp_path: Path) -> None:
    read, content = NEEDED[name][0], dict(NEEDED[name][1])
    change(content, key)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=rf"{path.name} is damaged: .*'{key}'.*; \w+"):
        read(tmp_path)


@pytest.mark.parametrize("date", ["yesterday", "", "2026-13-01"])
def test_a_day_that_is_none(date: str, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "started.json").write_text(json.dumps({"date": date}))
    with pytest.raises(BadInput, match=rf"started.json is damaged: '{date}' is not a date; give the day"):
        _last_closed_year(tmp_path)


def test_a_report_of_a_graph_with_unknown_counts(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps({"format": 1, "n_papers": 0, "report": {"papers": 1}}))
    with pytest.raises(BadInput, match=r"graph.json is damaged: .*'papers'; build the graph again"):
        CitationGraph.load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_graph_is_not_saved_over_one_that_is_damaged(content: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(content)
    with pytest.raises(BadInput, match=r"graph.json is damaged: .*; delete it"):
        CitationGraph.from_edges([1], [0], [1990, 1992]).save(tmp_path)


@pytest.mark.parametrize("content", [b"[]", b"3", b"{}", b'{"request": "/a"}', b'{"request": "/a", "body": 3}'])
def test_a_page_of_another_shape_counts_as_absent(content: bytes, tmp_path: Path) -> None:
    store = PageStore(tmp_path)
    store.put("/a", b"{}")
    [path] = tmp_path.rglob("*.zst")
    path.write_bytes(zstandard.compress(content))
    assert store.get("/a") is None
    path.write_bytes(zstandard.compress(orjson.dumps({"request": "/a", "body": "{}"})))
    assert store.get("/a") == b"{}"


@pytest.mark.parametrize("report", ["[]", "3", "{", ""])
def test_a_shard_of_another_kind_is_refused(report: str, tmp_path: Path, small_works: Path) -> None:
    table = pa.table({"work_id": [1]}).replace_schema_metadata({WRITTEN_FROM: report})
    pq.write_table(table, tmp_path / "part-00000.parquet")
    with pytest.raises(BadInput, match=r"part-00000.parquet was not written by a build"):
        convert(parts_of(small_works), tmp_path, progress=False)


@pytest.mark.parametrize("given", ["12", 1.5, [], True])
@pytest.mark.parametrize("key", ["content_length", "record_count"])
def test_a_number_of_a_manifest(given, key: str, tmp_path: Path, snapshot_of) -> None:
    snapshot_of(tmp_path / "works", [{"id": "W1", "publication_year": 2000}])
    entry = {"url": "updated_date=2026-01-01/part_0000.gz", "meta": {key: given}}
    (tmp_path / "works" / "manifest").write_text(json.dumps({"entries": [entry]}))
    with pytest.raises(BadInput, match=r"manifest gives updated_date=2026-01-01/part_0000.gz .*; fetch it again"):
        parts_of(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_the_split_is_named(kept: int, tmp_path: Path) -> None:
    papers = sample_papers()
    save_dataset(tmp_path, {"train": papers, "validation": papers, "test": papers})
    path = split_file(tmp_path, "test")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BadInput, match=rf"{path.name} is damaged: .*; build the dataset again"):
        load_papers(tmp_path, "test")
    (tmp_path / "card.json").write_text(json.dumps(NEEDED["card.json"][1]))
    [check] = verify(tmp_path)
    assert path.name in check.wrong[0]
