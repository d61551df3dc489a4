"""How many bytes does a call hold at most?"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


def peak_memory(work: Callable[[], _Result]) -> tuple[_Result, int]:
    """The result of the second of two calls, and the bytes that Python and numpy held at most for it.

    The first call compiles the kernels that no test before has called; the compiler takes tens of megabytes.
    """
    work()
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
