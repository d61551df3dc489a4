"""The harness finds the writer that can lose data, and passes the one that cannot."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from kill_points import kill_points


def overwrite(path: Path, text: str) -> None:
    path.write_text(text)


def overwrite_atomically(path: Path, text: str) -> None:
    aside = path.with_suffix(".part")
    aside.write_text(text)
    os.replace(aside, path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "file"
    path.write_text("old text")
    return path


def test_a_plain_write_is_caught_in_both_of_its_bad_states(file: Path) -> None:
    seen = [(point.call.partition("(")[0], point.half, file.read_text())
            for point in kill_points(file.parent, lambda: overwrite(file, "new text"))]  # fmt: skip
    assert seen == [
        ("openat", False, "old text"),
        ("write", False, ""),
        ("write", True, "new "),
        ("finished", False, "new text"),
    ]


def test_an_atomic_write_leaves_the_old_text_or_the_new_one(file: Path) -> None:
    seen = [(point.call.partition("(")[0], file.read_text())
            for point in kill_points(file.parent, lambda: overwrite_atomically(file, "new text"))]  # fmt: skip
    assert seen == [
        *[(call, "old text") for call in ("openat", "write", "write", "rename")],
        ("finished", "new text"),
    ]


def test_the_folder_is_restored_and_nothing_runs_after_the_kill(file: Path) -> None:
    def action() -> None:
        try:
            (file.parent / "made").mkdir()
            file.unlink()
        finally:
            (file.parent / "cleanup").touch()

    names = []
    for _ in kill_points(file.parent, action):
        names.append(sorted(path.name for path in file.parent.iterdir()))
        (file.parent / "left by the check").touch()
    assert names == [["file"], ["file", "made"], ["made"], ["cleanup", "made"]]


def test_every_way_of_changing_a_folder_counts(file: Path) -> None:
    def action() -> None:
        folder = os.open(file.parent, os.O_RDONLY)
        (file.parent / "link").symlink_to("file")
        os.link("file", "hard", src_dir_fd=folder, dst_dir_fd=folder)
        with open(file, "r+b") as handle, open(file.parent / "copy", "wb", buffering=0) as copy:
            os.ftruncate(handle.fileno(), 4)
            os.sendfile(copy.fileno(), handle.fileno(), 0, 1)
            os.fsync(copy.fileno())
        os.truncate(file, 2)
        os.rename("copy", "renamed", src_dir_fd=folder, dst_dir_fd=folder)
        os.mkdir("sub", dir_fd=folder)
        os.chdir(file.parent)
        os.rmdir("sub")
        Path("/dev/null").write_text("not here")
        file.read_text()

    calls = [point.call.partition("(")[0] for point in kill_points(file.parent, action) if not point.half]
    assert calls == (
        "symlink linkat openat openat ftruncate sendfile fsync truncate renameat mkdirat rmdir finished".split()
    )


def test_threads_and_child_processes_are_followed_and_die_too(file: Path) -> None:
    def action() -> None:
        thread = threading.Thread(target=overwrite_atomically, args=(file, "of a thread"))
        thread.start()
        thread.join()
        subprocess.run([sys.executable, "-S", "-c", f"open({str(file)!r}, 'w').write('of a process')"], check=True)

    seen = [file.read_text() for _ in kill_points(file.parent, action)]
    # openat, write, half of it, rename; openat, write, half of it; nothing.
    assert seen == ["old text"] * 4 + ["of a thread", "", "of a p", "of a process"]


def test_an_action_that_fails_or_hangs_is_an_error(file: Path) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(kill_points(file.parent, lambda: 1 // 0))
    with pytest.raises(RuntimeError, match="did not end within"):
        list(kill_points(file.parent, threading.Event().wait, timeout=0.5))
