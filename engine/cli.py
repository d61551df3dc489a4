"""`scisci-gym engine serve` and `scisci-gym engine init-model`."""

import json
import logging
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True, help="A Tinker-compatible engine on this machine, and tiny models to run on it."
)


@app.command()
def serve(
    checkpoints: Annotated[Path, typer.Option(help="Folder of all checkpoints.")] = Path("checkpoints"),
    model: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER or NAME=OWNER/REPO of a base model; may be repeated.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address; other than this machine needs TINKER_API_KEY.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8765,
    seed: Annotated[str, typer.Option(help="Seed of clients that name none, or 'random'.")] = "0",
    threads: Annotated[int | None, typer.Option(help="Torch threads; chosen by the number of cores.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16, for the base model.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch models from the Hugging Face hub.")] = False,
    adapter: Annotated[str, typer.Option(help="Adapters to train: lora or dora.")] = "lora",
    quantize: Annotated[str, typer.Option(help="Base model in memory: none, or 4bit (needs bitsandbytes).")] = "none",
    gather_ms: Annotated[float, typer.Option(help="How long sampling waits for requests to join a batch.")] = 40.0,
    sampling_gb: Annotated[float, typer.Option(help="Disk space for weights of sampling clients, in GB.")] = 4.0,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
    announce: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve the Tinker protocol until interrupted.

    Point the SDK at it with TINKER_BASE_URL=http://127.0.0.1:8765, TINKER_API_KEY=tml-local and TINKER_TELEMETRY=0. If
    TINKER_API_KEY is set where the server starts, every client must send the same key.
    """
    from .serve.serving import ServeOptions
    from .serve.serving import serve as run

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
            download=download,
            adapter=adapter,  # pyright: ignore[reportArgumentType] (checked there)
            quantize=quantize,  # pyright: ignore[reportArgumentType]
            gather_seconds=gather_ms / 1000,
            sampling_bytes=int(sampling_gb * 1e9),
            parent=parent,
            announce=announce,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    run(options)


@app.command("init-model")
def init_model_command(
    out: Annotated[Path, typer.Argument(help="Folder to write the model to.")],
    corpus: Annotated[
        Path, typer.Option(help="A dataset folder (parquet under data/), or a .parquet, .jsonl or .txt file.")
    ],
    whole_words: Annotated[str, typer.Option(help="Comma-separated words that become one token each.")],
    answers: Annotated[str | None, typer.Option(help="Comma-separated answers; default: the whole words.")] = None,
    columns: Annotated[str, typer.Option(help="Columns joined into a document.")] = "title,abstract",
    frame: Annotated[str, typer.Option(help="User message; {text} is replaced by the document.")] = "{text}",
    split: Annotated[str, typer.Option(help="Split of a dataset folder to train on.")] = "train",
    label_column: Annotated[
        str | None, typer.Option(help="Labels of the probe's split; without it there is no gate.")
    ] = None,
    probe_split: Annotated[str, typer.Option(help="Split of the probe.")] = "validation",
    limit: Annotated[int | None, typer.Option(help="Use this many documents at most.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of a round of pre-training.")] = 800,
    batch_size: Annotated[int, typer.Option(help="Documents per step.")] = 16,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 5e-3,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and answers.")] = 0,
    vocab_size: Annotated[int, typer.Option(help="Tokens in all.")] = 1024,
    hidden_size: Annotated[int, typer.Option(help="Width.")] = 128,
    intermediate_size: Annotated[int, typer.Option(help="Width of the feed-forward layers.")] = 384,
    layers: Annotated[int, typer.Option(help="Layers.")] = 2,
    heads: Annotated[int, typer.Option(help="Attention heads.")] = 4,
    kv_heads: Annotated[int, typer.Option(help="Key-value heads.")] = 2,
    threads: Annotated[int | None, typer.Option(help="Torch threads.")] = None,
) -> None:
    """Make a tiny Qwen3 model with its own tokenizer and pre-train it briefly on a corpus."""
    from .tiny.corpus import read_labelled, read_texts
    from .tiny.init_model import init_model

    if "{text}" not in frame:
        raise typer.BadParameter("the frame has no {text}", param_hint="--frame")
    names = _words(columns)
    try:
        texts = read_texts(corpus, names, split, limit)
        probe = read_labelled(corpus, names, label_column, probe_split, limit) if label_column else None
        report = init_model(
            out,
            [frame.replace("{text}", text) for text in texts],
            answers=_words(answers) if answers else None,
            whole_words=_words(whole_words),
            steps=steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            seed=seed,
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            intermediate_size=intermediate_size,
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            probe=[(frame.replace("{text}", text), label) for text, label in probe] if probe else None,
            threads=threads,
        )
    except (ValueError, FileNotFoundError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(json.dumps(asdict(report), indent=1))
    if not report.reached:
        raise typer.Exit(code=1)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


if __name__ == "__main__":
    app()
