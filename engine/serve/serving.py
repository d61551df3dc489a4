"""Running a server until it is told to stop."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from aiohttp import web
from transformers.utils.logging import disable_progress_bar

from ..compute.checkpoints import CheckpointStore
from ..compute.devices import Quantization, check_quantization, choose_device, choose_threads
from ..compute.loading import is_hub_name
from ..compute.lora import KINDS, AdapterKind
from .backend import Backend, EngineOptions
from .server import Server

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServeOptions:
    """Everything that can be set about a server.

    Parameters
    ----------
    models
        Base models by name. Local folders can also be named by their path as long as `host` is this machine.
    checkpoints
        Folder of all checkpoints; it outlives the server.
    host, port
        Where to listen; port 0 takes a free one.
    api_key
        Required of clients. Anything but this machine's own address needs one.
    seed
        The seed of clients that name none, see `EngineOptions`.
    threads
        Torch threads; None chooses by the number of cores.
    device, dtype
        None: CUDA and bfloat16 if there is a GPU, otherwise the CPU and float32.
    download
        Whether to fetch models from the Hugging Face hub that are not in its local cache.
    adapter
        Kind of adapters that are trained: lora or dora.
    quantize
        ``4bit`` keeps the base models' linear layers in 4 bits (NF4, through bitsandbytes); with `adapter` dora that is
        QDoRA.
    gather_seconds
        How long sampling waits for more requests to join a batch.
    sampling_bytes
        Disk space for the weights of sampling clients that are not in memory.
    parent
        Process id; the server ends when that process does.
    announce
        File that receives the address once the server answers.
    """

    models: dict[str, str]
    checkpoints: Path
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str | None = None
    seed: int | None = 0
    threads: int | None = None
    device: str | None = None
    dtype: str | None = None
    download: bool = False
    adapter: AdapterKind = "lora"
    quantize: Quantization = "none"
    gather_seconds: float = 0.04
    sampling_bytes: int = 4 << 30
    parent: int | None = None
    announce: Path | None = None

    def __post_init__(self) -> None:
        if not _is_loopback(self.host) and not self.api_key:
            raise ValueError(
                f"host {self.host!r} lets other machines in: set an API key (TINKER_API_KEY, starting with 'tml-')"
            )
        if self.api_key is not None and not self.api_key.startswith("tml-"):
            raise ValueError("the API key must start with 'tml-'; the SDK refuses others")
        if self.adapter not in KINDS:
            raise ValueError(f"adapter {self.adapter!r} is not known; choose one of {', '.join(KINDS)}")
        check_quantization(self.quantize)
        if self.sampling_bytes < 0:
            raise ValueError(f"sampling_bytes must be at least 0, got {self.sampling_bytes}")
        for name, folder in self.models.items():
            if not Path(folder, "config.json").is_file() and not is_hub_name(folder):
                raise ValueError(
                    f"base model {name!r}: {folder} is not a Hugging Face model folder (it has no config.json)"
                )


def build_server(options: ServeOptions) -> Server:
    """A server that is not listening yet. Sets the number of torch threads of this process."""
    torch.set_num_threads(choose_threads(options.threads))
    disable_progress_bar()
    device, dtype = choose_device(options.device, options.dtype)
    engine = EngineOptions(
        models=dict(options.models),
        device=device,
        dtype=dtype,
        any_path=_is_loopback(options.host),
        seed=options.seed,
        download=options.download,
        adapter=options.adapter,
        quantize=options.quantize,
        sampling_bytes=options.sampling_bytes,
    )
    backend = Backend(engine, CheckpointStore(options.checkpoints))
    return Server(backend, options.api_key, options.gather_seconds)


async def listen(server: Server, options: ServeOptions, stop: asyncio.Event, ready: Callable[[str], None]) -> None:
    """Answer requests until `stop` is set; `ready` receives the address."""
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=1.0, auto_decompress=False)
    await runner.setup()
    try:
        site = web.TCPSite(runner, options.host, options.port)
        await site.start()
        port = runner.addresses[0][1]
        ready(f"http://{options.host}:{port}")
        await stop.wait()
    finally:
        await runner.cleanup()


def serve(options: ServeOptions) -> None:
    """Serve in this process until SIGINT, SIGTERM, or the end of `options.parent`."""
    server = build_server(options)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        watch = asyncio.create_task(_watch_parent(options.parent, stop)) if options.parent else None
        await listen(server, options, stop, lambda url: _announce(url, options.announce))
        if watch is not None:
            watch.cancel()

    asyncio.run(main())


class ServerThread:
    """A server in a thread of this process. It suits debugging; client and server share one GIL, so it is slower."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self.url = ""
        self.server = build_server(options)
        self._thread = threading.Thread(target=self._run, name="engine-server", daemon=True)

    def start(self) -> str:
        """Start listening and return the address."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise RuntimeError(f"the engine did not start: {self._error}") from self._error
        return self.url

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(listen(self.server, self._options, self._stop, self._announce))
        except BaseException as error:
            self._error = error
            self._ready.set()
        finally:
            self._loop.close()

    def _announce(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def stop(self) -> None:
        """Stop listening and wait for the thread to end."""
        with contextlib.suppress(RuntimeError):  # the loop has closed already
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)


async def _watch_parent(parent: int, stop: asyncio.Event) -> None:
    """Stop when the parent process has ended: one that was killed cannot stop this process itself."""
    while os.getppid() == parent:
        await asyncio.sleep(0.5)
    logger.warning("the process that started this server (%d) is gone; stopping", parent)
    stop.set()
    # The worker thread may be in the middle of a long batch; with the parent gone, no client waits for its result.
    await asyncio.sleep(5)
    os._exit(1)


def _announce(url: str, file: Path | None) -> None:
    print(f"engine listening on {url}", flush=True)
    if file is not None:
        aside = file.with_suffix(".tmp")
        aside.write_text(url)
        os.replace(aside, file)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
