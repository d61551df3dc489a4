"""The local engine's process, watched: when the system ends it, the run ends too, instead of asking it for minutes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ...engine import Engine

SIGNAL = signal.SIGUSR2
REPEAT = 5.0
"""Seconds until the run is told again, should it have taken the end of its engine for the failure of one request."""


class EngineTrouble(ValueError):
    """Why a run cannot go on, for which its options are not to blame; in one line, with what to do."""


class EngineGone(BaseException):
    """Interrupts the main thread when the engine is gone. No retry of a request may catch it."""


@contextmanager
def watched(engine: Engine, log: Path) -> Iterator[None]:
    """Let an `EngineTrouble` end the block when the engine's process ends inside it.

    It reaches the main thread as a signal (SIGUSR2), so nothing is watched in other threads, for an engine without a
    process of its own, and where that signal has a meaning already. Ctrl-C would not do: a shell that starts a command
    in the background lets it ignore that.
    """
    process, over = engine.process, threading.Event()
    main = threading.main_thread()
    is_free = signal.getsignal(SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN)
    if process is None or threading.current_thread() is not main or not is_free:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        cause = f"it ended with status {process.returncode}"
        if process.returncode == -signal.SIGKILL:
            cause = "the system killed it, most likely for want of memory: take a smaller model or batch"
        raise EngineGone(f"the local engine is gone: {cause} (see {log})")

    def watch() -> None:
        process.wait()
        while not over.is_set():
            signal.pthread_kill(main.ident or 0, SIGNAL)
            over.wait(REPEAT)

    signal.signal(SIGNAL, interrupt)
    threading.Thread(target=watch, name="engine-watch", daemon=True).start()
    try:
        yield
    except EngineGone as error:
        raise EngineTrouble(str(error)) from error
    finally:
        over.set()
        # Not the default: a signal that is on its way would end this process.
        signal.signal(SIGNAL, signal.SIG_IGN)
