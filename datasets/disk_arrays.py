"""Arrays in temporary files, for results that grow with the number of works."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np


def new_array(shape: tuple[int, ...], dtype: type[np.generic], on_disk: bool) -> np.ndarray:
    """An array of zeros: in memory, or in a temporary file that is never seen and goes with the array.

    The system writes pages of the file to the disk and drops them when it needs the memory. ``TMPDIR`` says where the
    file is; a folder that is itself in memory saves none.
    """
    if not on_disk or 0 in shape:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        mapped: Any = np.memmap(file, dtype, "w+", shape=shape)
        return np.asarray(mapped)


def held(array: np.ndarray, on_disk: bool) -> np.ndarray:
    """The array itself, or a copy of it in a temporary file: see `new_array`."""
    if not on_disk:
        return array
    copy = new_array(array.shape, array.dtype.type, on_disk)
    copy[...] = array
    return copy
