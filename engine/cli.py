"""`scisci-gym engine serve` and `scisci-gym engine init-model`."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True, help="A Tinker-compatible engine on this machine, and tiny models to run on it."
)


@app.command()
def serve(
    checkpoints: Annotated[Path, typer.Option(help="Folder of all checkpoints.")] = Path("checkpoints"),
    model: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER of a base model; may be repeated.")] = None,
    host: Annotated[str, typer.Option(help="Address; other than this machine needs TINKER_API_KEY.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    seed: Annotated[str, typer.Option(help="Seed of samples that bring none, or 'random'.")] = "0",
    threads: Annotated[int | None, typer.Option(help="Torch threads; chosen by the number of cores.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16, for the base model.")] = None,
    gather_ms: Annotated[float, typer.Option(help="How long sampling waits for requests to join a batch.")] = 40.0,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    announce: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve the Tinker protocol until interrupted.

    Point the SDK at it with TINKER_BASE_URL=http://127.0.0.1:8765, TINKER_API_KEY=tml-local and TINKER_TELEMETRY=0. If
    TINKER_API_KEY is set where the server starts, every client must send the same key.
    """
    from .serving import ServeOptions
    from .serving import serve as run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    models = {}
    for item in model or []:
        name, _, folder = item.partition("=")
        if not folder:
            raise typer.BadParameter(f"{item!r} is not of the form NAME=FOLDER", param_hint="--model")
        models[name] = folder
    if seed != "random" and not seed.lstrip("-").isdigit():
        raise typer.BadParameter(f"{seed!r} is neither a whole number nor 'random'", param_hint="--seed")
    try:
        options = ServeOptions(
            models=models,
            checkpoints=checkpoints,
            host=host,
            port=port,
            api_key=os.environ.get("TINKER_API_KEY") or None,
            seed=None if seed == "random" else int(seed),
            threads=threads,
            device=device,
            dtype=dtype,
            gather_seconds=gather_ms / 1000,
            parent=parent,
            announce=announce,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    run(options)


if __name__ == "__main__":
    app()
