"""`scisci-gym engine serve` and, in the engine alone, `init-model`."""

import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import EngineOptions
from .tiny.options import InitOptions

app = typer.Typer(
    no_args_is_help=True, help="A Tinker-compatible engine on this machine, and tiny models to run on it."
)


def with_options(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that gives a command the fields of a dataclass as options, in place of its ``**options``.

    A field is an option if its metadata has a ``help``. They also say where the command line differs: ``name``,
    ``command_line`` (another default), ``unit`` (what the option's number is multiplied by), ``none`` (the word for
    None). `read_options` turns the options back into fields.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        options = [_parameter(field) for field in fields(kind) if "help" in field.metadata]
        command.__signature__ = signature.replace(parameters=[*own, *options])  # pyright: ignore[reportFunctionMemberAccess]
        return command

    return decorate


def _parameter(field: Any) -> inspect.Parameter:
    of = field.metadata
    name, default, kind = of.get("name", field.name), of.get("command_line", field.default), field.type
    if default is MISSING:
        kind, default = list[str] | None, None
    elif "unit" in of:
        kind, default = float, default / of["unit"]
    elif "none" in of or isinstance(default, str):
        kind, default = str, str(default)
    flag = f"--{name.replace('_', '-')}"
    annotation = Annotated[kind, typer.Option(flag, help=of["help"])]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def read_options(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the fields of `kind`, from those of the options that `with_options` made of them."""
    values = {}
    for field in fields(kind):
        of = field.metadata
        name = of.get("name", field.name)
        if name not in given:
            continue
        value = given[name]
        if field.default is MISSING:
            value = dict(_pair(item, f"--{name}") for item in value or [])
        elif "unit" in of:
            value = type(field.default)(value * of["unit"])
        elif "none" in of:
            value = None if value == of["none"] else _whole_number(value, of["none"], f"--{name}")
        values[field.name] = value
    return values


def _pair(item: str, flag: str) -> tuple[str, str]:
    name, _, folder = item.partition("=")
    if not folder:
        raise typer.BadParameter(f"{item!r} is not of the form NAME=FOLDER", param_hint=flag)
    return name, folder


def _whole_number(text: str, word: str, flag: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a whole number nor {word!r}", param_hint=flag)
    return int(text)


@app.command()
@with_options(EngineOptions)
def serve(
    options_from_stdin: Annotated[bool, typer.Option("--options-from-stdin", hidden=True)] = False, **options: Any
) -> None:
    """Serve the Tinker protocol until interrupted.

    Point the SDK at it with TINKER_BASE_URL=http://127.0.0.1:8765, TINKER_API_KEY=tml-local and TINKER_TELEMETRY=0. If
    TINKER_API_KEY is set where the server starts, every client must send the same key.
    """
    from .serve.server import serve as run

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    try:
        if options_from_stdin:
            run(EngineOptions.from_json(sys.stdin.read()))
            return
        chosen = EngineOptions(**read_options(EngineOptions, options), api_key=os.environ.get("TINKER_API_KEY") or None)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    run(chosen)


@app.command("init-model")
@with_options(InitOptions)
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
    **options: Any,
) -> None:
    """Make a tiny Qwen3 model with its own tokenizer and pre-train it briefly on a corpus."""
    from .tiny.corpus import read_labelled, read_texts
    from .tiny.init_model import init_model

    if "{text}" not in frame:
        raise typer.BadParameter("the frame has no {text}", param_hint="--frame")
    names = _words(columns)
    try:
        texts = read_texts(corpus, names, split, limit)
        labelled = read_labelled(corpus, names, label_column, probe_split, limit) if label_column else None
        report = init_model(
            out,
            [frame.replace("{text}", text) for text in texts],
            answers=_words(answers) if answers else None,
            whole_words=_words(whole_words),
            probe=[(frame.replace("{text}", text), label) for text, label in labelled] if labelled else None,
            **read_options(InitOptions, options),
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
