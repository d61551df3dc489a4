"""Files that a reader finds whole: written aside, renamed, and changed under a lock where several processes write."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class FolderInUse(ValueError):
    """Another process works in the folder that was asked for."""


def write_text_atomically(path: str | Path, text: str) -> Path:
    """Write a file so that a reader, or a run after a crash, finds the old one or the new one and never half of one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
    return path


def write_json_atomically(path: str | Path, value: Any) -> Path:
    """`write_text_atomically` of indented JSON. What JSON does not know is written as its text."""
    return write_text_atomically(path, json.dumps(value, indent=2, default=str) + "\n")


def drop_torn_lines(path: str | Path, keep: Callable[[Any], bool] = lambda value: True) -> int:
    """Take out of a file of JSON lines what a killed writer left behind, before somebody appends to it or reads it.

    These are a last line without its end, which would swallow the line that is appended to it, lines that are not JSON,
    and values that `keep` does not want. A file without any is not touched; another one is replaced atomically.

    Returns
    -------
    int
        Lines that were dropped; 0 where there is no file.
    """
    path = Path(path)
    if not path.is_file():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n") and _is_wanted(line, keep)]
    if len(whole) < len(lines):
        write_text_atomically(path, b"".join(whole).decode())
    return len(lines) - len(whole)


def _is_wanted(line: bytes, keep: Callable[[Any], bool]) -> bool:
    try:
        return keep(json.loads(line))
    except ValueError:
        return False


# POSIX record locks (`lockf`) belong to a process: the system lets go of them when it dies, and a forked worker that
# outlives it does not hold them, as it would those of `flock`. Threads of one process they do not keep apart.
_THREADS = threading.Lock()


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; other processes and threads wait."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _THREADS, path.open("a") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def claimed(path: str | Path, refusal: str) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs.

    Raises
    ------
    FolderInUse
        With the text `refusal`, if another process holds it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise FolderInUse(refusal) from error
        yield
