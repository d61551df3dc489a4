"""Options of an environment as text on a command line: ``prompt=short,references=true``."""

from __future__ import annotations

import json
from typing import Any

from ...envs.registry import spec


def parse_options(env_id: str, text: str) -> dict[str, Any]:
    """Keyword options of an environment.

    Values are read as JSON where they are JSON (true, 3, 0.5) and as text otherwise.

    Raises
    ------
    ValueError
        If the environment has no such option, refuses its value, or a part is not of the form ``name=value``.

    Examples
    --------
    >>> parse_options("disruption-v0", "prompt=short,references=true")
    {'prompt': 'short', 'references': True}
    """
    options: dict[str, Any] = {}
    known = spec(env_id).option_names()
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"environment options are name=value pairs separated by commas, got {part!r}")
        if name not in known:
            raise ValueError(f"{env_id} has no option {name!r}; it has {', '.join(known)}")
        options[name] = _value(value)
    spec(env_id).check_options(options)
    return options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
