"""`data update`: the next snapshot in an existing dataset, as if built anew, with a list of what changed."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kill_points import kill_points

from scisci_gym.datasets import update
from scisci_gym.datasets.dataset_folder import NEXT
from scisci_gym.datasets.openalex import shards
from scisci_gym.datasets.splits import SPLITS
from scisci_gym.datasets.store import load_card, load_papers
from scisci_gym.datasets.verify import verify

OPTIONS = ("--no-novelty", "--min-citations", "3", "--quiet")


def publish(root: Path, works: dict[str, list[dict]], snapshot_of: Callable[..., Path]) -> Path:
    """A snapshot in the layout of 2026: one part for each day, and a manifest."""
    folder, files = root / "data" / "jsonl" / "works", []
    for day, part in works.items():
        name = f"updated_date={day}/part_0000.gz"
        size = (snapshot_of(folder, part, name) / name).stat().st_size
        meta = {"content_length": size, "record_count": len(part)}
        files.append({"url": f"s3://openalex/data/jsonl/works/{name}", "meta": meta})
    (folder / "manifest.json").write_text(json.dumps({"format": "jsonl", "entity": "works", "files": files}))
    return root


class Quarters:
    """Two snapshots of the same 2,000 works, a quarter apart, and a dataset of the first."""

    def __init__(self, root: Path, small_works: Path, snapshot_of: Callable[..., Path], command: Callable[..., Any]):
        with gzip.open(next(small_works.rglob("*.gz"))) as stream:
            works = [json.loads(line) for line in stream]
        late = {f"2026-0{month}-01": works[month - 1 :: 4] for month in (1, 2, 3, 4)}
        # Every tenth work is not there yet; of those of March ten are gone later, and sixty have changed.
        self.before = {day: [work for at, work in enumerate(part) if at % 10] for day, part in late.items()}
        self.after = {day: list(part) for day, part in self.before.items()}
        self.after["2026-03-01"] = [self._later(at, work) for at, work in enumerate(self.before["2026-03-01"][10:])]
        self.after["2026-06-01"] = [work for part in late.values() for work in part[::10]]
        self.old = publish(root / "old", self.before, snapshot_of)
        self.new = publish(root / "new", self.after, snapshot_of)
        self.built, self.fresh = root / "built", root / "fresh"
        for snapshot, out in ((self.old, self.built), (self.new, self.fresh)):
            result = command("build", "snapshot", snapshot, "--out", out, *OPTIONS)
            assert result.exit_code == 0, result.output

    @staticmethod
    def _later(at: int, work: dict) -> dict:
        if at < 30:
            return {**work, "title": f"{work['title']} (corrected)"}
        return {**work, "referenced_works": work["referenced_works"][1:]} if at < 60 else work

    def dataset(self, folder: Path) -> Path:
        """A copy of the dataset of the first snapshot, whose card says how it was built."""
        shutil.copytree(self.built, folder)
        card = load_card(folder)
        words = ("scisci-gym", "build", "snapshot", str(self.old), "--out", "dataset", *OPTIONS)
        (folder / "card.json").write_text(json.dumps({**card, "command": " ".join(words)}))
        return folder


@pytest.fixture(scope="module")
def quarters(tmp_path_factory, small_works, snapshot_of):
    from typer.testing import CliRunner

    from scisci_gym.datasets.cli.build import app

    def command(_: str, *arguments: Any) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return Quarters(tmp_path_factory.mktemp("quarters"), small_works, snapshot_of, command)


def tree(folder: Path, *places: str) -> dict[str, bytes]:
    paths = [path for place in places or (".",) for path in (folder / place).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(paths)}


def labelled(folder: Path) -> dict[str, Any]:
    return {paper.openalex_id: (split, paper) for split in SPLITS for paper in load_papers(folder, split)}


def test_an_update_gives_what_a_build_gives_and_reports_the_changes(quarters, tmp_path, command, monkeypatch):
    read, write = [], shards.write_shard
    monkeypatch.setattr(shards, "write_shard", lambda part, *rest: read.append(part.name) or write(part, *rest))
    out = quarters.dataset(tmp_path / "out")
    (out / "notes.txt").write_text("mine")
    result = command("data", "update", out, quarters.new)
    assert result.exit_code == 0, result.output
    print(result.output)

    assert read == ["updated_date=2026-03-01/part_0000.gz", "updated_date=2026-06-01/part_0000.gz"]
    assert tree(out, "data", "graph") == tree(quarters.fresh, "data", "graph")
    card, fresh = load_card(out), load_card(quarters.fresh)
    assert card["content_hash"] == fresh["content_hash"] != load_card(quarters.built)["content_hash"]
    assert {k: v for k, v in card.items() if k not in ("command", "source", "update", "files")} == {
        k: v for k, v in fresh.items() if k not in ("command", "source", "files")
    }
    assert card["command"].split()[3] == str(quarters.new)
    assert all(check.holds for check in verify(out))
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / NEXT).exists()

    before, after = (
        {work["id"]: work for part in parts.values() for work in part} for parts in (quarters.before, quarters.after)
    )
    both = before.keys() & after.keys()
    titles = sum(before[n]["title"] != after[n]["title"] for n in both)
    references = sum(before[n]["referenced_works"] != after[n]["referenced_works"] for n in both)
    assert card["update"]["works"] == {
        "new": len(after.keys() - both),
        "changed": sum(before[n] != after[n] for n in both),
        "gone": 10,
        "merged": 0,
        "columns": {"title": titles, "referenced_works": references},
    }
    assert (titles, card["update"]["parts"]) == (30, {"taken_over": 3, "read": 2})
    assert f"works: {len(after.keys() - both)} new, {titles + references} changed" in result.output

    old, new = labelled(quarters.built), labelled(out)
    changed = [
        n for n in sorted(old) if old[n][1].disruption_label != (new[n][1].disruption_label if n in new else None)
    ]
    with (out / "label_changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["paper"] for row in rows] == changed
    assert sum(card["update"]["papers"]["labels"]["disruption_label"].values()) == len(changed)
    assert sum(n in new for n in changed) >= 5
    for row in rows:
        for folder, when in ((old, "before"), (new, "after")):
            split, paper = folder.get(row["paper"], ("", None))
            assert row[f"split_{when}"] == split
            values = {name: row[f"{name}_{when}"] for name in ("disruption_label", "cd_index", "n_i", "n_j", "n_k")}
            if paper is None:
                assert set(values.values()) == {""}
                continue
            assert values.pop("disruption_label") == paper.disruption_label
            assert {name: float(value) for name, value in values.items()} == {n: getattr(paper, n) for n in values}


def test_an_update_that_was_cut_off_leaves_the_dataset_and_goes_on(quarters, tmp_path, command, monkeypatch):
    """It is cut off when all parts are read, at the labels; the second time no part is read."""
    out = quarters.dataset(tmp_path / "out")
    whole = tree(out)

    def cut_off(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(update, "build_dataset", cut_off)
    assert command("data", "update", out, quarters.new, "--quiet").exit_code != 0
    assert {name: data for name, data in tree(out).items() if not name.startswith(NEXT)} == whole
    assert all(check.holds for check in verify(out))
    monkeypatch.undo()
    monkeypatch.setattr(shards, "write_shard", cut_off)
    result = command("data", "update", out, quarters.new, "--quiet")
    assert result.exit_code == 0, result.output
    assert tree(out, "data", "graph") == tree(quarters.fresh, "data", "graph")


def test_a_kill_while_files_are_moved_loses_nothing(quarters, tmp_path, monkeypatch):
    """At every system call the folder holds the old dataset, the new one, or none and what the next update needs."""
    out = quarters.dataset(tmp_path / "out")
    shutil.copytree(quarters.fresh, out / NEXT)
    old, seen = tree(out, "data"), set()
    for point in kill_points(out, lambda: update._put_in_place(out)):
        is_dataset = (out / "card.json").is_file()
        if is_dataset:
            new = tree(out, "data") == tree(quarters.fresh, "data")
            assert new or tree(out, "data") == old, point
            seen.add("new" if new else "old")
        else:
            seen.add("none")
            assert update.updatable_card(out)["content_hash"] == load_card(quarters.fresh)["content_hash"]
            assert tree(out, "data", "graph", "works") == tree(quarters.fresh, "data", "graph", "works"), point
    assert seen == {"old", "new", "none"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": {"kind": "openalex"}}, "was not built by `build snapshot`"),
        ({"command": ""}, "does not say with which command it was built"),
        ({"works_in_graph": 1}, "does not hold the works of the dataset"),
    ],
)
def test_what_cannot_be_updated(quarters, tmp_path, command, change, words):
    out = quarters.dataset(tmp_path / "out")
    (out / "card.json").write_text(json.dumps({**load_card(out), **change}))
    result = command("data", "update", out, quarters.new)
    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert words in " ".join(result.output.split())


def test_titles_of_other_works_stop_an_update(quarters, tmp_path, command, snapshot_of):
    scrambled = {day: list(part) for day, part in quarters.after.items()}
    part = scrambled["2026-03-01"]
    for work, other in zip(part, quarters.after["2026-03-01"][1:], strict=False):
        part[part.index(work)] = {**work, "title": other["title"]}
    snapshot = publish(tmp_path / "scrambled", scrambled, snapshot_of)
    out = quarters.dataset(tmp_path / "out")
    whole = tree(out)
    result = command("data", "update", out, snapshot, "--quiet")
    assert result.exit_code == 2, result.output
    text = " ".join(result.output.split())
    assert "updated_date=2026-03-01/part_0000.gz: " in text
    assert "works have another title altogether" in text
    assert "--any-titles" in text
    assert {name: data for name, data in tree(out).items() if not name.startswith(NEXT)} == whole
    assert command("data", "update", out, snapshot, "--any-titles", "--quiet").exit_code == 0
    result = command("data", "verify", out, "--previous", quarters.built, "--sample", "5")
    assert result.exit_code == 1
    assert "fails titles as in the previous build" in " ".join(result.output.split())
