"""How commands tell what is wrong with their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape


def stop_on_bad_input(run: Callable[[], Any]) -> Any:
    """Run `run`; show what is wrong with the user's input in one line and exit with status 2, without a traceback.

    Shown are `ValueError` (`BadInput` is one) and `FileNotFoundError`; anything else is a fault of the program.
    """
    try:
        return run()
    except (FileNotFoundError, ValueError) as error:
        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}", highlight=False)
        raise typer.Exit(2) from error
