"""Files that a reader finds whole: written aside, renamed, and changed under a lock where several processes write."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


class FolderInUse(ValueError):
    """Another process works in the folder that was asked for."""


_UNFINISHED = re.compile(r"\..+\.(?P<machine>[^.]*)\.(?P<process>\d+)\.\d+\.part")
_MACHINE = re.sub(r"\W", "-", platform.node())
_BEING_WRITTEN: set[Path] = set()


@contextmanager
def aside(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """A path beside `path` for the block to write a file or fill a folder at; it takes the name `path` when the block
    ends, and is removed if the block raises.

    The name tells machine, process and thread: no two writers share one, and `remove_unfinished` knows whose it was.

    Parameters
    ----------
    path : path
        Its folder is made if it is not there.
    durable : bool
        Flush the file and its new name to the disk before returning, so that they outlive a power failure too.
    """
    path = Path(path)
    with _unfinished(path) as unfinished:
        yield unfinished
        if durable:
            _flush(unfinished)
        unfinished.replace(path)
        if durable:
            _flush(path.parent)


@contextmanager
def scratch_folder(path: str | Path) -> Iterator[Path]:
    """A folder beside `path` for the block to work in, removed when it ends; `remove_unfinished` knows it too."""
    with _unfinished(Path(path)) as folder:
        folder.mkdir()
        yield folder


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{_MACHINE}.{os.getpid()}.{threading.get_ident()}.part")
    _BEING_WRITTEN.add(unfinished)
    try:
        yield unfinished
    except OSError as error:
        # A write to a full disk does not say where it was.
        error.filename = error.filename or str(path)
        raise
    finally:
        _BEING_WRITTEN.discard(unfinished)
        _remove(unfinished)


def is_unfinished(path: Path) -> bool:
    """Whether `path` has a name that `aside` gives."""
    return _UNFINISHED.fullmatch(path.name) is not None


def remove_unfinished(folder: Path) -> None:
    """Remove what `aside` has left in `folder` (not below it) when its process was killed.

    Files of living processes, and of processes on other machines, stay.
    """
    for path in folder.glob(".*.part"):
        match = _UNFINISHED.fullmatch(path.name)
        if match is None or match["machine"] != _MACHINE or path in _BEING_WRITTEN:
            continue
        if int(match["process"]) == os.getpid() or not _lives(int(match["process"])):
            _remove(path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text_atomically(path: str | Path, text: str) -> Path:
    """Write a file so that a reader, or a run after a crash, finds the old one or the new one and never half of one."""
    with aside(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return Path(path)


def write_json_atomically(path: str | Path, value: Any) -> Path:
    """`write_text_atomically` of indented JSON. What JSON does not know is written as its text."""
    return write_text_atomically(path, json.dumps(value, indent=2, default=str) + "\n")


def drop_torn_lines(path: str | Path, keep: Callable[[Any], bool] = lambda value: True) -> int:
    """Remove from a file of JSON lines what a killed writer left behind, before the file is read or appended to.

    These are a last line without its end, which would swallow the line that is appended to it, lines that are not JSON,
    and values that `keep` does not want. A file without any is not touched; another one is replaced atomically. Returns
    the number of lines that were dropped; 0 where there is no file.
    """
    path = Path(path)
    lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
    whole = []
    for line in lines:
        with suppress(ValueError):
            if line.endswith(b"\n") and keep(json.loads(line)):
                whole.append(line)
    if len(whole) < len(lines):
        write_text_atomically(path, b"".join(whole).decode())
    return len(lines) - len(whole)


# POSIX record locks (`lockf`) belong to a process: the system lets go of them when it dies, and a forked worker that
# outlives it does not hold them, as it would those of `flock`. They do not keep threads of one process apart.
_THREADS = threading.Lock()


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; other processes and threads wait."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _THREADS, path.open("a") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        yield


_CLAIMS: dict[Path, tuple[int, int]] = {}


@contextmanager
def claimed(path: str | Path, refusal: str) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs. A thread that holds it already may claim it again.

    Raises `FolderInUse`, with the text `refusal`, if another process or thread holds it.
    """
    path, me = Path(path).resolve(), (os.getpid(), threading.get_ident())
    if _CLAIMS.get(path) == me:
        # A second handle of the file is not opened: closing it would end the lock of the first.
        yield
        return
    if _CLAIMS.setdefault(path, me) != me:
        raise FolderInUse(refusal)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                raise FolderInUse(refusal) from error
            yield
    finally:
        del _CLAIMS[path]
