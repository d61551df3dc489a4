"""Starting an engine from Python: `local_engine(...)`, a context in which the tinker SDK talks to this machine."""

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..options import EngineOptions

if TYPE_CHECKING:
    from .server import ServerThread

START_SECONDS = 300.0
"""Importing torch on a busy machine takes a while."""


@dataclass
class Engine:
    """A running engine. `environment` has what clients need, as variables."""

    url: str
    api_key: str
    # The process or the thread that the engine runs in; the other one is None.
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
    key = f"tml-{secrets.token_hex(16)}"
    chosen = EngineOptions(
        # Absolute where they are folders: the engine's process may live elsewhere. Others are names of the hub.
        models={n: str(Path(f).resolve() if Path(f).exists() else f) for n, f in (models or {}).items()},
        checkpoints=Path(checkpoints).resolve(),
        api_key=key,
        **options,
    )
    if process:
        return _start_process(chosen, key, log)
    from .server import ServerThread

    thread = ServerThread(chosen)
    return Engine(thread.start(), key, thread=thread)


def _start_process(options: EngineOptions, key: str, log: str | Path | None) -> Engine:
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as address, contextlib.ExitStack() as files:
        with open(writer, "wb"):
            command = f"from {__package__}.server import serve_parent; serve_parent({os.getpid()}, {writer})"
            output = files.enter_context(open(log, "ab")) if log is not None else subprocess.DEVNULL
            child = subprocess.Popen(
                [sys.executable, "-c", command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=[writer],
                # Ctrl-C goes to the whole terminal group; the parent decides when the engine ends.
                start_new_session=True,
            )
        engine = Engine("", key, process=child)
        try:
            assert child.stdin is not None
            with contextlib.suppress(BrokenPipeError), child.stdin as pipe:  # It has ended, as the address will show.
                pipe.write(json.dumps(asdict(options), default=str).encode())
            if not select.select([address], [], [], START_SECONDS)[0]:
                raise RuntimeError(f"the engine did not answer within {START_SECONDS:.0f} s")
            engine.url = address.read().decode()
            if not engine.url:
                raise RuntimeError(f"the engine ended with status {child.wait()} before it answered; see its messages")
        except BaseException:
            engine.close()
            raise
    return engine


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables inside the block; afterwards they are as they were."""
    before = {name: os.environ.get(name) for name in values}
    try:
        os.environ.update(values)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def run_seed(seed: int) -> Iterator[None]:
    """Give a run's seed to the engine: every `tinker.ServiceClient` that is created inside the block carries it.

    The seed decides the first weights of the run's adapters and the samples of requests that bring no seed of their
    own, from adapters and base models alike. What is more specific wins: ``create_lora_training_client(seed=...)``
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
    tags = os.environ.get("TINKER_TAGS", "").split(",")
    others = [tag for tag in tags if tag.strip() and not tag.strip().startswith("seed=")]
    with _variables({"TINKER_TAGS": ",".join([*others, f"seed={seed}"])}):
        yield


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
    try:
        with _variables(engine.environment):
            yield engine
    finally:
        engine.close()
