"""What is wrong with a user's input, and how commands report it."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class BadInput(ValueError):
    """Input that needs a decision by the user. The message names the file, the line and what to do."""


def read_json(path: Path, remedy: str) -> Any:
    """The content of a JSON file; `BadInput` with its name and what to do, `remedy`, if it is damaged."""
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"{path} is damaged: {error}; {remedy}") from error


_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space there, or choose another folder,"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "choose a place that you may read and write,"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST), "give a file for a file and a folder for a folder,"),
}


def stop_on_bad_input(run: Callable[[], Any]) -> Any:
    """Return ``run()``; for wrong input of the user, print one line without a traceback and exit with status 2.

    `ValueError` (such as `BadInput`), `FileNotFoundError` and a place that cannot be written to or read count as wrong
    input; any other exception is raised.
    """
    try:
        return run()
    except (OSError, ValueError) as error:
        text = str(error)
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            if error.errno not in _REMEDIES:
                raise
            text = f"{text}; {_REMEDIES[error.errno]} and run the same command again"
        import typer
        from rich.console import Console
        from rich.markup import escape

        Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {escape(text)}", highlight=False)
        raise typer.Exit(2) from error
