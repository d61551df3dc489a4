"""Contents of the files of runs and evaluations: plain JSON without keys, and the revision of the code."""

import math
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

MASK = "[removed]"
SHORTEST_SECRET = 6
# Names of environment variables whose values are secrets, and forms of keys that are recognised without them.
_SECRET_NAME = re.compile(r"(API_?KEY|TOKEN|SECRET|PASSWORD)S?$", re.IGNORECASE)
_KEY_FORMS = re.compile(r"\b(?:tml-|sk-|hf_)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: dataclasses become dicts, tuples lists, and NaN and infinities null."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def without_secrets(value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """The same value with everything that looks like a key replaced in its texts.

    Removed are the values of environment variables named like ``..._API_KEY``, ``..._TOKEN``, ``..._SECRET`` or
    ``..._PASSWORD``, texts of the forms ``tml-...``, ``sk-...`` and ``hf_...``, and user names with passwords in URLs.

    A value that is no text, and no dict, list or tuple of texts, is returned as it is. The environment is by default
    this process's.

    Examples
    --------
    >>> without_secrets(["--key", "tml-abcdefgh1234"], {})
    ['--key', '[removed]']
    >>> without_secrets("http://me:pass@host/v1", {})
    'http://[removed]@host/v1'
    """
    environment = os.environ if environment is None else environment
    secrets = [
        secret for name, secret in environment.items() if _SECRET_NAME.search(name) and len(secret) >= SHORTEST_SECRET
    ]
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


def git_revision() -> str | None:
    """Short revision of the code, with ``+`` where files differ from it; None outside a checkout.

    The cookbook's `code_state` returns the whole difference as a text, which is too long for a result.
    """
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
