"""What is wrong with a user's input, and how commands report it."""

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class BadInput(ValueError):
    """Input that needs a decision by the user. The message names the file, the line and what to do."""


def read_json(path: Path, remedy: str, needs: Mapping[str, type] | None = None) -> dict[str, Any]:
    """The object in a JSON file.

    Raises `BadInput`, with the file's name and what to do, `remedy`, if the file is damaged, holds anything but an
    object, or lacks a key of `needs` or has it with a value of another type.
    """
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"{path} is damaged: {error}; {remedy}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{path} is damaged: it holds {_shown(content)}, not an object; {remedy}")
    for key, kind in (needs or {}).items():
        if key not in content:
            raise BadInput(f"{path} is damaged: it lacks {key!r}; {remedy}")
        if not isinstance(content[key], kind) or (isinstance(content[key], bool) and kind is not bool):
            raise BadInput(f"{path} is damaged: {key!r} is {_shown(content[key])}, not a {kind.__name__}; {remedy}")
    return content


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


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
