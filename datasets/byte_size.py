"""A size of memory, as a person writes it."""

import re

from .errors import BadInput

UNITS = {unit: 1000**power for power, unit in enumerate(["B", "KB", "MB", "GB", "TB"])}
UNITS |= {unit: 1024**power for power, unit in enumerate(["KIB", "MIB", "GIB", "TIB"], start=1)}


def byte_size(text: str) -> int:
    """The number of bytes that a text such as ``8GB``, ``1.5 GB`` or ``512MiB`` means; raises `BadInput` for another.

    Examples
    --------
    >>> byte_size("8GB"), byte_size("0.5 KiB")
    (8000000000, 512)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", text, re.IGNORECASE)
    size = int(float(found[1]) * UNITS.get(found[2].upper(), 0)) if found else 0
    if not size:
        raise BadInput(f"memory {text} is not a size: give e.g. 8GB")
    return size
