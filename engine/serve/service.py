"""Starting an engine from Python: `local_engine(...)`, a context in which the tinker SDK talks to this machine."""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..options import EngineOptions

if TYPE_CHECKING:
    from .server import ServerThread

START_SECONDS = 120.0
"""Importing torch on a busy machine takes a while."""


@dataclass
class Engine:
    """A running engine.

    Parameters
    ----------
    url, api_key
        What clients need; `environment` has them as variables.
    process, thread
        The process or the thread that the engine runs in; the other one is None.
    """

    url: str
    api_key: str
    process: subprocess.Popen[bytes] | None = None
    thread: "ServerThread | None" = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which the tinker SDK uses this engine, past any proxy."""
        hosts = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"]))
        return {
            "TINKER_BASE_URL": self.url,
            "TINKER_API_KEY": self.api_key,
            "TINKER_TELEMETRY": "0",
            "NO_PROXY": hosts,
            "no_proxy": hosts,
        }

    def is_healthy(self) -> bool:
        """Whether the engine answers its health check."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url}/api/v1/healthz", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def close(self) -> None:
        """Stop the engine: ask its process to end, and kill it if it has not ended after ten seconds."""
        if self.thread is not None:
            self.thread.stop()
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start_engine(
    models: Mapping[str, str | Path] | None = None,
    *,
    checkpoints: str | Path,
    process: bool = True,
    log: str | Path | None = None,
    **options: Any,
) -> Engine:
    """Start an engine on 127.0.0.1 and wait until it answers. The caller closes it.

    Parameters
    ----------
    models
        Base models by the name that clients use. A local folder can always be named by its path.
    checkpoints
        Folder of all checkpoints; an engine started again on it serves the old ones.
    process
        A process of its own (faster), or a thread of this one.
    log
        File for the messages of the process; None drops them.
    options
        Fields of `EngineOptions` by name: port, seed (see `run_seed`; None draws first weights and samples afresh),
        threads, device, dtype, download, adapter, quantize, gather_seconds, sampling_bytes.

    Raises
    ------
    TypeError
        If there is no such option.
    ValueError
        If the value of an option is refused, see `EngineOptions`.
    RuntimeError
        If the engine ends before it answers, or does not answer in time.
    """
    chosen = EngineOptions(
        # Absolute where they are folders: the engine's process may live elsewhere. Others are names of the hub.
        models={n: str(Path(f).resolve() if Path(f).exists() else f) for n, f in (models or {}).items()},
        checkpoints=Path(checkpoints).resolve(),
        api_key=f"tml-{secrets.token_hex(16)}",
        **options,
    )
    if process:
        return _start_process(chosen, log)
    from .server import ServerThread

    thread = ServerThread(chosen)
    return Engine(thread.start(), str(chosen.api_key), thread=thread)


def _start_process(options: EngineOptions, log: str | Path | None) -> Engine:
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as files:
        announce = Path(scratch, "address")
        output = files.enter_context(open(log, "ab")) if log is not None else subprocess.DEVNULL
        child = subprocess.Popen(
            [sys.executable, "-m", "scisci_gym.engine", "serve", "--options-from-stdin"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C goes to the whole terminal group; the parent decides when the engine ends.
            start_new_session=True,
        )
        engine = Engine("", str(options.api_key), process=child)
        try:
            # The key travels through the pipe: arguments can be read by everybody on the machine.
            sent = replace(options, parent=os.getpid(), announce=str(announce))
            assert child.stdin is not None
            with child.stdin as pipe, contextlib.suppress(BrokenPipeError):  # It has ended, as the wait will show.
                pipe.write(sent.to_json().encode())
            _wait_for(engine, announce)
        except BaseException:
            engine.close()
            raise
    return engine


def _wait_for(engine: Engine, announce: Path) -> None:
    assert engine.process is not None
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if engine.process.poll() is not None:
            raise RuntimeError(
                f"the engine ended with status {engine.process.returncode} before it answered; see its messages"
            )
        if announce.exists():
            engine.url = announce.read_text()
            if engine.is_healthy():
                return
        time.sleep(0.05)
    raise RuntimeError(f"the engine did not answer within {START_SECONDS:.0f} s")


@contextlib.contextmanager
def run_seed(seed: int) -> Iterator[None]:
    """Give a run's seed to the engine: every `tinker.ServiceClient` that is created inside the block carries it.

    The seed decides the first weights of the run's adapters and the samples of requests that bring no seed of their
    own, from adapters and base models alike. Two seeds therefore differ from the first weights and samples on, also on
    one engine, and the same seed repeats them. What is more specific wins: ``create_lora_training_client(seed=...)``
    for first weights, ``SamplingParams.seed`` for samples. Without any of them the engine's own seed (`start_engine`,
    ``engine serve --seed``) decides.

    The seed travels as the session's tag ``seed=N`` in ``TINKER_TAGS``, which the SDK reads when a ServiceClient is
    created; other servers ignore it. The variable belongs to the process: two runs at the same time need processes of
    their own.

    Examples
    --------
    >>> with run_seed(3):
    ...     os.environ["TINKER_TAGS"]
    'seed=3'
    """
    before = os.environ.get("TINKER_TAGS")
    others = [tag for tag in (before or "").split(",") if tag.strip() and not tag.strip().startswith("seed=")]
    os.environ["TINKER_TAGS"] = ",".join([*others, f"seed={seed}"])
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("TINKER_TAGS", None)
        else:
            os.environ["TINKER_TAGS"] = before


@contextlib.contextmanager
def local_engine(
    models: Mapping[str, str | Path] | None = None, *, checkpoints: str | Path, **options: Any
) -> Iterator[Engine]:
    """`start_engine` as a context: inside it the tinker SDK uses the engine; afterwards the environment is as it was.

    Examples
    --------
    >>> with local_engine({"tiny": "models/tiny"}, checkpoints="runs/checkpoints"):  # doctest: +SKIP
    ...     client = tinker.ServiceClient()
    """
    engine = start_engine(models, checkpoints=checkpoints, **options)
    before = {name: os.environ.get(name) for name in engine.environment}
    try:
        os.environ.update(engine.environment)
        yield engine
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        engine.close()
