"""A build removes and overwrites what a build has written, and nothing else, whenever it is cut off."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kill_points import kill_points
from sciscinet_file import write_sciscinet

from scisci_gym.datasets.atomic_files import FolderInUse, aside, claimed
from scisci_gym.datasets.build import BuildOptions, build_dataset
from scisci_gym.datasets.dataset_folder import LOCK, UNFINISHED, dataset_folder, owned_files
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.shards import convert, write_shard
from scisci_gym.datasets.openalex.snapshot import parts_of, read_works
from scisci_gym.datasets.store import load_card
from scisci_gym.datasets.verify import verify


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def kept(before: dict[str, bytes], folder: Path) -> bool:
    after = tree(folder)
    return {name: after.get(name) for name in before} == before


@pytest.fixture(scope="module")
def works(small_works):
    return read_works(small_works, progress=False)


@pytest.fixture
def corpus(tmp_path, small_works):
    """A snapshot whose works lie in ``corpus/data``."""
    shutil.copytree(small_works, tmp_path / "corpus" / "data")
    return tmp_path / "corpus"


@pytest.mark.parametrize("out", ["corpus", "corpus/data", "corpus/data/out", ".", "link", "corpus/../corpus"])
def test_a_build_into_its_own_input_is_refused(tmp_path, corpus, command, out, monkeypatch):
    (tmp_path / "link").symlink_to(corpus, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    result = command("build", "snapshot", corpus, "--out", out, "--quiet")
    assert result.exit_code == 2
    assert "choose another --out" in " ".join(result.output.split())
    assert tree(tmp_path) == before


@pytest.mark.parametrize("out", [".", "data", "data/papers.parquet"])
def test_a_file_that_is_read_is_not_in_the_folder_that_is_written(tmp_path, command, out, monkeypatch):
    (tmp_path / "data").mkdir()
    write_sciscinet(tmp_path / "data" / "papers.parquet", 500, abstract_words=3)
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    for arguments in (("sciscinet", "data/papers.parquet"), ("openalex", "--seeds", "data/papers.parquet")):
        result = command("build", *arguments, "--out", out)
        assert result.exit_code == 2, result.output
    assert tree(tmp_path) == before


PLACES = [
    "README.md", "card.json", "published.parquet", "data/notes.txt", "data/train-00000-of-00001.parquet", "graph/x.npy",
    "source/deep/er.txt", "works/part-00000.parquet", "works/part-00007.parquet",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_what_no_build_wrote_is_refused_by_name(tmp_path, small_works, command, place):
    foreign = tmp_path / "out" / place
    foreign.parent.mkdir(parents=True)
    foreign.write_text("a thesis")
    result = command("build", "snapshot", small_works, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 2
    assert f"{place} was not written by a build" in result.output.replace("\n", " ")
    assert foreign.read_text() == "a thesis"


BUILDS = {
    "snapshot": lambda works: ("snapshot", works, "--no-novelty"),
    "synthetic": lambda _: ("synthetic", "--papers", 1500, "--no-novelty"),
}


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.sets(
        st.sampled_from([*PLACES, "notes.txt", "works/x.txt", "pages/ab/1.tmp", "pages/my.tmp"]), min_size=1
    ),
    first=st.sampled_from([None, *BUILDS]),
    second=st.sampled_from(list(BUILDS)),
)
def test_every_foreign_byte_is_kept(tmp_path_factory, small_works, command, places, first, second):
    """Into an empty folder or over a dataset, whether the build is refused or not."""
    out = tmp_path_factory.mktemp("foreign")
    if first is not None:
        assert command("build", *BUILDS[first](small_works), "--out", out, "--quiet").exit_code == 0
    foreign = {place: b"mine" for place in places if not (out / place).exists()}
    for place, data in foreign.items():
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        (out / place).write_bytes(data)
    command("build", *BUILDS[second](small_works), "--out", out, "--quiet")
    assert kept(foreign, out)


@pytest.mark.parametrize("build", BUILDS)
def test_the_next_build_knows_every_file_that_a_build_leaves_when_it_is_cut_off(tmp_path, small_works, command, build):
    assert command("build", *BUILDS[build](small_works), "--out", tmp_path, "--quiet").exit_code == 0
    (tmp_path / "card.json").unlink()
    (tmp_path / UNFINISHED).touch()
    assert tmp_path / "graph" / "graph.lock" in owned_files(tmp_path)


def test_a_place_that_is_a_link_leads_nowhere(tmp_path, small_works, command):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "graph.json").write_text("{}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "graph").symlink_to(tmp_path / "precious")
    assert command("build", "snapshot", small_works, "--out", tmp_path / "out").exit_code == 2
    assert tree(tmp_path / "precious") == {"graph.json": b"{}"}


def test_a_dataset_takes_the_place_of_an_earlier_one(tmp_path, small_works, command):
    for build in ("synthetic", "snapshot"):
        assert command("build", *BUILDS[build](small_works), "--out", tmp_path, "--quiet").exit_code == 0
    for name in load_card(tmp_path)["files"]:
        assert (tmp_path / name).is_file()
    assert command("build", "snapshot", small_works, "--no-novelty", "--out", tmp_path / "x" / "new", "--quiet")
    assert tree(tmp_path / "data") == tree(tmp_path / "x" / "new" / "data")


@pytest.mark.slow
def test_a_build_killed_at_any_call_leaves_a_whole_dataset_or_none(tmp_path, works, monkeypatch):
    """The old one, the new one, or a folder that says it is none and that the next build makes whole."""
    monkeypatch.setenv("SCISCI_GYM_THREADS", "1")

    def build(folder: Path, threshold: float) -> None:
        build_dataset(*works, folder, BuildOptions(LabelRules(threshold=threshold), novelty=False))

    out, new = tmp_path / "out", tmp_path / "new"
    build(new, 0.2)
    build(out, 0.1)
    old, expected, seen = tree(out), tree(new), set()
    for point in kill_points(out, lambda: build(out, 0.2)):
        if (out / "card.json").exists():
            found = {name: data for name, data in tree(out).items() if not name.startswith(".")}
            which = "old" if found["card.json"] == old["card.json"] else "new"
            known = {name: data for name, data in (old if which == "old" else expected).items() if name[0] != "."}
            assert found == known, point
            seen.add(which)
        else:
            with pytest.raises(FileNotFoundError, match="is not a dataset"):
                verify(out)
            seen.add("none")
        if point.number % 10 == 0 or point.finished:
            build(out, 0.2)
            assert tree(out) == expected, point
    assert seen == {"old", "new", "none"}


def test_a_second_build_in_one_folder_says_so_at_once(tmp_path, small_works, command):
    holder = subprocess.Popen(
        [
            sys.executable, "-c",
            "import sys; from pathlib import Path; from scisci_gym.datasets.dataset_folder import dataset_folder\n"
            "with dataset_folder(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    for build in BUILDS.values():
        result = command("build", *build(small_works), "--out", tmp_path, "--quiet")
        assert result.exit_code == 2
        assert "another build is writing to" in result.output
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert command("build", *BUILDS["snapshot"](small_works), "--out", tmp_path, "--quiet").exit_code == 0


def test_a_claim_is_taken_again_by_its_thread_and_by_no_other(tmp_path):
    import concurrent.futures

    with claimed(tmp_path / "lock", "held"):
        with claimed(tmp_path / "lock", "held"):
            pass
        other = (
            f"from scisci_gym.datasets.atomic_files import claimed\nwith claimed({str(tmp_path / 'lock')!r}, 'x'): 0"
        )
        assert subprocess.run([sys.executable, "-c", other], capture_output=True).returncode == 1
        with concurrent.futures.ThreadPoolExecutor() as pool, pytest.raises(FolderInUse, match="held"):
            pool.submit(claimed(tmp_path / "lock", "held").__enter__).result()
    with claimed(tmp_path / "lock", "held"):
        pass


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_only_what_a_dead_process_left_is_removed(tmp_path, small_works):
    """Page store and shards: the unfinished file of a process that lives, or of another machine, stays."""
    with aside(tmp_path / "pages" / "ab" / "page") as mine:
        mine.write_text("being written")
        name = mine.name

    def left(process: int, machine: str | None = None) -> str:
        parts = name.rsplit(".", 4)
        return ".".join([parts[0], machine or parts[1], str(process), *parts[3:]])

    names = {"alive": left(os.getppid()), "dead": left(dead_process()), "other": left(dead_process(), "elsewhere")}
    for folder in (tmp_path / "pages" / "ab", tmp_path / "shards"):
        folder.mkdir(exist_ok=True)
        for file in names.values():
            (folder / file).write_text("half")
        (folder / "notes.tmp").write_text("mine")
    with aside(tmp_path / "pages" / "ab" / "page") as mine:
        mine.write_text("being written")
        PageStore(tmp_path / "pages")
        assert mine.read_text() == "being written"
    convert(parts_of(small_works), tmp_path / "shards", workers=1, progress=False)
    for folder in (tmp_path / "pages" / "ab", tmp_path / "shards"):
        here = {path.name for path in folder.iterdir()}
        assert here & set(names.values()) == {names["alive"], names["other"]}
        assert "notes.tmp" in here


def test_a_page_killed_at_any_call_is_there_whole_or_not_at_all(tmp_path):
    def put() -> None:
        PageStore(tmp_path).put("/a", b'{"id": "new"}')
        PageStore(tmp_path).put("/b", b"{}")

    PageStore(tmp_path).put("/a", b'{"id": "old"}')
    for point in kill_points(tmp_path, put):
        store = PageStore(tmp_path)
        assert store.get("/a") in (b'{"id": "old"}', b'{"id": "new"}'), point
        assert store.get("/b") in (None, b"{}"), point
        assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")], point


@pytest.mark.slow
def test_a_shard_killed_at_any_call_is_there_whole_or_not_at_all(tmp_path, snapshot_of):
    works = [
        {"id": f"W{number}", "publication_year": 2000, "title": f"T{number}", "referenced_works": []}
        for number in range(3)
    ]
    (part,) = parts_of(snapshot_of(tmp_path / "in", works))
    shard = tmp_path / "shards" / "part-00000.parquet"
    shard.parent.mkdir()
    for point in kill_points(shard.parent, lambda: write_shard(part, shard)):
        assert not shard.exists() or pq.read_table(shard)["title"].to_pylist() == ["T0", "T1", "T2"], point
        (again,) = convert([part], shard.parent, workers=1, progress=False)
        assert again.rows == 3
        assert [path.name for path in shard.parent.iterdir()] == ["part-00000.parquet"], point


def test_a_file_where_the_folder_would_be(tmp_path):
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(BadInput, match="is a file; choose a folder"), dataset_folder(out):
            pass
