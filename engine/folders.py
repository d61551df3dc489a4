"""Folders that appear under their name whole: a writer that is killed leaves the old one or the new one."""

import ctypes
import errno
import fcntl
import os
import shutil
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED = ".writing-"
"""Names of folders that are being filled start with this."""
_REPLACED = ".old-"
_EXCHANGE = 2
_AT_FDCWD = -100


class OwnFolder:
    """A new folder of this process under `parent`. It is removed at the end of the object, or of the program.

    The process holds a lock on it, which the system lets go of when the process dies: whoever comes next removes the
    folders that no living process owns, and no others.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        remove_unowned(parent)
        self.path = parent / f"{UNFINISHED}{uuid.uuid4().hex}"
        self.path.mkdir()
        handle = os.open(self.path, os.O_RDONLY)
        # A file system without locks: the folder works, and is not removed after a crash.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.close = weakref.finalize(self, _remove, self.path, handle)


def _remove(path: Path, handle: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(handle)


def remove_unowned(parent: Path) -> None:
    """Remove the unfinished folders that killed processes left directly under `parent`."""
    for leftover in parent.glob(f"{UNFINISHED}*"):
        # Refused: its owner lives. Gone: its owner has finished meanwhile.
        with suppress(BlockingIOError, FileNotFoundError):
            handle = os.open(leftover, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover, ignore_errors=True)
            finally:
                os.close(handle)


@contextmanager
def new_folder(final: Path, *, overwrite: bool) -> Iterator[Path]:
    """A folder to fill, which takes the name `final` in one step when the block ends, with everything on disk.

    `FileExistsError` if `final` is a file, or holds something and `overwrite` is false.
    """
    final = final.absolute()
    restore(final)
    check_free(final, overwrite=overwrite)
    own = OwnFolder(final.parent)
    try:
        yield own.path
        for path in [*own.path.rglob("*"), own.path]:
            _sync(path)
        _take_name(own.path, final)
        _sync(final.parent)
    finally:
        own.close()


def check_free(final: Path, *, overwrite: bool) -> None:
    """Raise `FileExistsError` if `new_folder` may not take this name."""
    if final.exists() and (not final.is_dir() or (not overwrite and any(final.iterdir()))):
        raise FileExistsError(f"{final} exists already; choose another folder")


def restore(final: Path) -> None:
    """Finish what a killed writer began where two folders cannot be exchanged in one step; see `_take_name`."""
    old = final.with_name(_REPLACED + final.name)
    if not old.exists():
        return
    if final.exists():
        shutil.rmtree(old)
    else:
        os.rename(old, final)


def restore_all(parent: Path) -> None:
    """`restore` every folder directly under `parent`."""
    for old in parent.glob(f"{_REPLACED}*"):
        restore(parent / old.name.removeprefix(_REPLACED))


def _take_name(new: Path, final: Path) -> None:
    """Rename `new` to `final`; what stood there, if anything did, is then called `new`."""
    if not final.exists():
        os.rename(new, final)
    elif not _exchange(new, final):
        old = final.with_name(_REPLACED + final.name)
        os.rename(final, old)
        try:
            os.rename(new, final)
        except OSError:
            os.rename(old, final)
            raise
        os.rename(old, new)


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change names in one step; False where the system or the file system cannot do that."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), ctypes.c_uint(_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(first), None, str(second))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
