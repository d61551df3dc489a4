"""Where training and sampling happen: the local engine, hosted Tinker, or any service that speaks its protocol.

`EngineConfig` is the one place in which the recipes' options of an engine are declared.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import chz
import typer

from ...engine import Engine as LocalEngine
from ...engine import local_engine
from ...engine.options import AdapterKind, Quantization

SIGNAL = signal.SIGUSR2
REPEAT = 5.0
"""Seconds until the run is told again, should it have taken the end of its engine for the failure of one request."""
ENGINE_HELP = "local, hosted, or the URL of a Tinker-compatible service; default: hosted if TINKER_API_KEY is set."
Engine = Annotated[str | None, typer.Option(help=ENGINE_HELP)]
"""The option ``--engine`` of the commands that train or sample."""


class EngineTrouble(ValueError):
    """Why a run cannot go on, for which its options are not to blame; in one line, with what to do."""


class _EngineGone(BaseException):
    """Interrupts the main thread when the engine is gone. No retry of a request may catch it."""


def folder(config: Any, value: str) -> str:
    """A folder by its absolute path, so that it is found from any working directory; a URI unchanged."""
    return value if "://" in value else os.path.abspath(value)


@chz.chz
class EngineConfig:
    """Options of the engine that a recipe runs on; see `open_engine`."""

    engine: str | None = chz.field(
        default=None, doc="local, hosted, or the URL of a Tinker-compatible service; hosted if TINKER_API_KEY is set."
    )
    checkpoints: str = chz.field(
        default="runs/checkpoints", munger=folder, doc="Folder of the local engine's weights and log."
    )
    adapter: AdapterKind = chz.field(
        default="lora", doc="What the local engine trains; dora is weight-decomposed LoRA."
    )
    quantize: Quantization = chz.field(
        default="none", doc="How the local engine holds the base model; 4bit needs CUDA and, with dora, is QDoRA."
    )
    device: str | None = chz.field(
        default=None, doc="Where the local engine computes: cpu, cuda, cuda:1, ...; CUDA if there is a GPU."
    )
    dtype: str | None = chz.field(
        default=None, doc="The base model's number format: float32, bfloat16 or float16; by hardware and size."
    )
    threads: int | None = chz.field(default=None, doc="The local engine's torch threads; by cores and size.")
    download: bool = chz.field(default=False, doc="Let the local engine fetch the model from the Hugging Face hub.")

    def local_options(self) -> dict[str, Any]:
        """The options of the local engine that differ from their defaults, by their names."""
        chosen = {name: getattr(self, name) for name in LOCAL_DEFAULTS}
        return {name: value for name, value in chosen.items() if value != LOCAL_DEFAULTS[name]}


LOCAL_DEFAULTS = {
    name: value for name, value in chz.asdict(EngineConfig()).items() if name not in ("engine", "checkpoints")
}
"""The options of the local engine that a recipe can set, with their defaults."""


def engine_kind(choice: str | None, model: str | None = None) -> str:
    """What an ``--engine`` choice stands for: "local", "hosted" or a URL.

    Without a choice a `model` that is a folder of this machine goes to the local engine, also where TINKER_API_KEY is
    set: the hosted service does not have it. Raises `ValueError` for anything else, and for ``hosted`` without a key.
    """
    here = model is not None and os.path.isdir(model)
    kind = choice or ("hosted" if os.environ.get("TINKER_API_KEY") and not here else "local")
    if kind == "hosted" and not os.environ.get("TINKER_API_KEY"):
        raise ValueError("engine hosted needs TINKER_API_KEY in the environment; without an account use --engine local")
    if kind not in ("local", "hosted") and not kind.startswith(("http://", "https://")):
        raise ValueError(f"engine must be local, hosted or a URL such as http://127.0.0.1:8000, got {kind!r}")
    return kind


@contextmanager
def open_engine(choice: str | None, checkpoints: str | Path, seed: int = 0, **local: Any) -> Iterator[str]:
    """Make a service reachable through the environment variables that the Tinker SDK reads, and yield its kind.

    Parameters
    ----------
    choice : "local" | "hosted" | URL | None
        See `engine_kind`.
    checkpoints : path
        Folder in which a local engine keeps weights and its log; it finds those of earlier runs there.
    seed : int
        Seed of a local engine's first weights and samples for clients that name none. A recipe's run names its own.
    local
        Options of the local engine: adapter, quantize, device, dtype, threads, download; see `EngineConfig`. Raises
        `ValueError` if one is refused, or given to another service.
    """
    kind = engine_kind(choice)
    if kind != "local" and any(value != LOCAL_DEFAULTS.get(name) for name, value in local.items()):
        given = " ".join(f"{name}={value}" for name, value in local.items())
        raise ValueError(
            f"{given}: options of the local engine; with --engine {kind} they are up to the service (a server of your "
            "own: scisci-gym engine serve --adapter dora --quantize 4bit --dtype bfloat16)"
        )
    if kind == "hosted":
        yield kind
    elif kind == "local":
        root = Path(checkpoints)
        root.mkdir(parents=True, exist_ok=True)
        log = root / "engine.log"
        with ExitStack() as stack:
            try:
                engine = stack.enter_context(local_engine({}, checkpoints=root, seed=seed, log=log, **local))
            except RuntimeError as error:
                # The last line that the engine wrote says why.
                last = (log.read_text(errors="replace").strip().splitlines() or [str(error)])[-1]
                raise ValueError(f"the local engine did not start: {last} (see {log})") from error
            stack.enter_context(_watched(engine, log))
            yield kind
    else:
        before = {name: os.environ.get(name) for name in ("TINKER_BASE_URL", "TINKER_API_KEY")}
        os.environ["TINKER_BASE_URL"] = kind
        # The SDK refuses to start without a key of this form, even where the service asks for none.
        os.environ.setdefault("TINKER_API_KEY", "tml-none")
        try:
            yield kind
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


@contextmanager
def _watched(engine: LocalEngine, log: Path) -> Iterator[None]:
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
        raise _EngineGone(f"the local engine is gone: {cause} (see {log})")

    def watch() -> None:
        process.wait()
        while not over.is_set():
            signal.pthread_kill(main.ident or 0, SIGNAL)
            over.wait(REPEAT)

    signal.signal(SIGNAL, interrupt)
    threading.Thread(target=watch, name="engine-watch", daemon=True).start()
    try:
        yield
    except _EngineGone as error:
        raise EngineTrouble(str(error)) from error
    finally:
        over.set()
        # Not the default: a signal that is on its way would end this process.
        signal.signal(SIGNAL, signal.SIG_IGN)
