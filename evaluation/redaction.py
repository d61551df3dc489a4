"""Keys are kept out of everything that is written about a run, whatever way they got in."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "[removed]"
# Names of environment variables whose values are secrets, and forms of keys that are recognised without them.
_SECRET_NAME = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
_KEY_FORMS = re.compile(r"\b(?:tml-|sk-|hf_)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
SHORTEST = 6


def without_secrets(value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """The same value with everything that looks like a key replaced in its texts.

    Removed are the values of environment variables named like ``..._API_KEY``, ``..._TOKEN``, ``..._SECRET`` or
    ``..._PASSWORD``, texts of the forms ``tml-...``, ``sk-...`` and ``hf_...``, and user names with passwords in URLs.

    Parameters
    ----------
    value : texts, or dicts, lists and tuples of them
        Anything else is returned as it is.
    environment : mapping
        Default: this process's.

    Examples
    --------
    >>> without_secrets(["--key", "tml-abcdefgh1234"], {})
    ['--key', '[removed]']
    >>> without_secrets("http://me:pass@host/v1", {})
    'http://[removed]@host/v1'
    """
    environment = os.environ if environment is None else environment
    secrets = [secret for name, secret in environment.items() if _SECRET_NAME.search(name) and len(secret) >= SHORTEST]
    return _cleaned(value, sorted(secrets, key=len, reverse=True))


def _cleaned(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return _KEY_FORMS.sub(MASK, value)
    if isinstance(value, Mapping):
        return {name: _cleaned(part, secrets) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(part, secrets) for part in value]
    return value
