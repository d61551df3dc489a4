"""Kill an action at every system call with which it changes a folder, and look at what it leaves behind.

    folder.mkdir()
    save(folder, OLD)
    for point in kill_points(folder, lambda: save(folder, NEW)):
        assert load(folder) in (OLD, NEW), point

The action runs once, in a forked child under ptrace, which stops at the entry of every changing call: a process that is
killed there leaves the folder as it is at that moment, for SIGKILL runs no ``finally`` block and no exit handler. The
folder is copied then, and a second time after a write of half of the bytes (writers go on with the rest). The loop gets
the copies one by one. The last point is the end of the run. What stands in the loop body is the restart after the
crash: it may write to the folder.

What the action needs should be imported and compiled before, and computed on one thread. A forked child has only the
thread that forked, and would wait for ever for another thread of its parent (`timeout` ends that with an error).
Stores into a shared memory map are no system calls: the folder is copied before and after a series of them, at msync.
Power cuts are another matter: the kernel still writes what a killed process has handed over, so no copy shows a missing
fsync.
"""

import contextlib
import ctypes
import json
import os
import platform
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Numbers of Linux on x86-64. A changing call names what it changes by a descriptor (its argument number) or by paths (
# the argument numbers of the directory's descriptor, -1 for none, and of the path).
_DESCRIPTOR = {
    1: ("write", 0), 18: ("pwrite64", 0), 20: ("writev", 0), 296: ("pwritev", 0), 328: ("pwritev2", 0),
    40: ("sendfile", 0), 326: ("copy_file_range", 2), 77: ("ftruncate", 0), 285: ("fallocate", 0),
    74: ("fsync", 0), 75: ("fdatasync", 0),
}  # fmt: skip
_PATHS = {
    2: ("open", [(-1, 0)]), 257: ("openat", [(0, 1)]), 85: ("creat", [(-1, 0)]), 76: ("truncate", [(-1, 0)]),
    82: ("rename", [(-1, 0), (-1, 1)]), 264: ("renameat", [(0, 1), (2, 3)]), 316: ("renameat2", [(0, 1), (2, 3)]),
    86: ("link", [(-1, 0), (-1, 1)]), 265: ("linkat", [(0, 1), (2, 3)]),
    88: ("symlink", [(-1, 1)]), 266: ("symlinkat", [(1, 2)]), 87: ("unlink", [(-1, 0)]), 263: ("unlinkat", [(0, 1)]),
    84: ("rmdir", [(-1, 0)]), 83: ("mkdir", [(-1, 0)]), 258: ("mkdirat", [(0, 1)]),
}  # fmt: skip
_MSYNC = 26
_FLAGS = {2: 1, 257: 2}  # argument number of the flags of open and openat
_CHANGING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# Calls that can end half done: argument number of the count of bytes, and where `struct user` keeps that register.
_COUNTS = {1: (2, 96), 18: (2, 96), 40: (3, 56), 326: (4, 72)}
_ORIG_RAX = 120

_TRACEME, _CONT_TO_CALL, _POKEUSER, _SETOPTIONS, _CALL_INFO = 0, 24, 6, 0x4200, 0x420E
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000  # mark system calls; follow fork, vfork and clone; die with the tracer
_WALL = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _CallInfo(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8), ("arch", ctypes.c_uint32), ("ip", ctypes.c_uint64), ("sp", ctypes.c_uint64),
        ("number", ctypes.c_uint64), ("args", ctypes.c_uint64 * 6), ("more", ctypes.c_uint64),
    )  # fmt: skip


@dataclass(frozen=True)
class KillPoint:
    """Where a run would have been killed.

    Parameters
    ----------
    number
        The changing call, counted from 1; at the end of the run, the number of all of them plus 1.
    call
        Its name and what it would have changed; "finished" at the end of the run.
    half
        Whether it wrote half of its bytes first.
    """

    number: int
    call: str
    half: bool = False

    @property
    def finished(self) -> bool:
        return self.call == "finished"


def kill_points(folder: Path, action: Callable[[], object], *, timeout: float = 300.0) -> Iterator[KillPoint]:
    """Run `action` and yield every point at which a kill can leave `folder` in another state; see the module.

    Parameters
    ----------
    folder
        Changes below it count. It must exist, and at every point is what the kill would have left.
    timeout
        Seconds that the run may take.

    Raises
    ------
    RuntimeError
        If the action raises, with its traceback, or does not end in time.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("killing at system calls needs Linux on x86-64")
    with tempfile.TemporaryDirectory() as scratch:
        for position, found in enumerate(_supervised(folder.resolve(), action, Path(scratch), timeout)):
            shutil.rmtree(folder)
            shutil.move(_copy_at(Path(scratch), position), folder)
            point = KillPoint(**found)
            print(point)  # Shown by pytest when the check fails.
            yield point


def _copy_at(scratch: Path, position: int) -> Path:
    return scratch / str(position)


def _supervised(folder: Path, action: Callable[[], object], scratch: Path, timeout: float) -> list[dict]:
    """The points of one run, traced from a process of its own, whose children are only those of the action."""
    read, write = os.pipe()
    if (supervisor := os.fork()) == 0:
        try:
            os.close(read)
            outcome = _trace(folder, action, scratch)
        except BaseException:
            outcome = {"error": traceback.format_exc()}
        (scratch / "outcome.json").write_text(json.dumps(outcome))
        os.write(write, b".")
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        in_time = bool(select.select([pipe], [], [], timeout)[0])
        if not in_time:
            os.kill(supervisor, signal.SIGKILL)  # The action dies with it.
    os.waitpid(supervisor, 0)
    if not in_time:
        raise RuntimeError(f"the action did not end within {timeout} s")
    outcome: dict[str, Any] = json.loads((scratch / "outcome.json").read_text())
    if "error" in outcome:
        raise RuntimeError(f"the action failed:\n{outcome['error']}")
    return outcome["points"]


def _trace(folder: Path, action: Callable[[], object], scratch: Path) -> dict[str, Any]:
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    if (child := os.fork()) == 0:
        if _libc.ptrace(_TRACEME, 0, None, None):
            os._exit(77)
        sys.dont_write_bytecode = True
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            action()
        except BaseException:
            errors.write(traceback.format_exc().encode())
            errors.flush()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        return {"error": "ptrace is not permitted here (in a container: --cap-add SYS_PTRACE)"}
    _ptrace(_SETOPTIONS, child, 0, _OPTIONS)
    points: list[dict] = []

    def keep(number: int, call: str, half: bool = False) -> None:
        shutil.copytree(folder, _copy_at(scratch, len(points)), symlinks=True)
        points.append({"number": number, "call": call, "half": half})

    seen, task, passed_on = 0, child, 0
    halved: dict[int, str] = {}  # By task, the call that is writing half of its bytes,
    rest: dict[int, str] = {}  # and the one that wrote half of them.
    while True:
        with contextlib.suppress(ProcessLookupError):  # Another thread has ended the process meanwhile.
            _ptrace(_CONT_TO_CALL, task, 0, passed_on)
        task, status = os.waitpid(-1, _WALL)
        passed_on = 0
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            if task != child:
                continue
            if status == 0:
                keep(seen + 1, "finished")
                return {"points": points}
            errors.seek(0)
            return {"error": errors.read().decode() or f"it ended with status {status}"}
        stop = os.WSTOPSIG(status)
        if stop != signal.SIGTRAP | 0x80:  # Not a system call: a signal for the action, or news of a new thread.
            passed_on = 0 if stop in (signal.SIGTRAP, signal.SIGSTOP) else stop
            continue
        info = _CallInfo()
        _ptrace(_CALL_INFO, task, ctypes.sizeof(info), ctypes.addressof(info))
        if info.op == 2 and task in halved:
            rest[task] = halved.pop(task)
            keep(seen, rest[task], half=True)
        if info.op != 1 or (call := _changing(task, info, folder)) is None:
            continue
        if rest.pop(task, None) == call:  # The rest of a write, whose half is a point already.
            continue
        seen += 1
        keep(seen, call)
        argument, register = _COUNTS.get(info.number, (0, 0))
        if register and (count := info.args[argument]) > 1:
            _ptrace(_POKEUSER, task, register, count // 2)
            halved[task] = call


def _changing(task: int, info: _CallInfo, folder: Path) -> str | None:
    """The call in words if it changes something at or below `folder`."""
    number, args = info.number, list(info.args)
    if number == _MSYNC:
        return "msync"
    if number in _FLAGS and not args[_FLAGS[number]] & _CHANGING_FLAGS:
        return None
    if number in _DESCRIPTOR:
        name, argument = _DESCRIPTOR[number]
        paths = [_link(task, f"fd/{_signed(args[argument])}")]
    elif number in _PATHS:
        name, places = _PATHS[number]
        paths = [_path(task, _signed(args[at]) if at >= 0 else -100, args[path]) for at, path in places]
    else:
        return None
    inside = [path for path in paths if path == str(folder) or path.startswith(f"{folder}/")]
    return f"{name}({', '.join(paths)})" if inside else None


def _path(task: int, directory: int, address: int) -> str:
    with open(f"/proc/{task}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        text = b""
        while b"\0" not in text and (piece := memory.read(256)):  # Reading stops at the end of a mapping.
            text += piece
    text = os.fsdecode(text.partition(b"\0")[0])
    base = _link(task, "cwd" if directory == -100 else f"fd/{directory}")
    parent, name = os.path.split(os.path.normpath(os.path.join(base, text)))
    return os.path.join(os.path.realpath(parent), name)


def _link(task: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{task}/{name}")
    except OSError:
        return ""


def _signed(value: int) -> int:
    return ctypes.c_int32(value & 0xFFFFFFFF).value


def _ptrace(request: int, task: int, address: int, data: int) -> None:
    if _libc.ptrace(request, task, address, data) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace request {request}: {os.strerror(error)}")
