"""Numbers in the query of a request, such as the page that is asked for."""

from typing import TypeVar

from aiohttp import web

from ..errors import RequestError

Default = TypeVar("Default", int, None)


def number(request: web.Request, name: str, default: Default) -> int | Default:
    """A whole number of at least 0 from the query; a `RequestError` if it is anything else."""
    text = request.query.get(name)
    if text is None:
        return default
    if not text.isdigit():
        raise RequestError(f"query parameter {name!r} must be a whole number of at least 0, got {text!r}")
    return int(text)
