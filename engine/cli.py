"""`scisci-gym engine serve`, which is also `python -m scisci_gym.engine serve`."""

import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any

import typer

from .options import EngineOptions

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _about() -> None:
    """A Tinker-compatible engine on this machine."""


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


if __name__ == "__main__":
    app()
