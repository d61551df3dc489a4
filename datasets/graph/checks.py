"""What a citation graph is made from, checked: years and positions of papers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def checked_years(years: npt.ArrayLike) -> np.ndarray:
    """`years` as an int16 array; raises `ValueError` where one is missing, not whole, or outside [0, 9999]."""
    array = np.asarray(years)
    if array.ndim != 1:
        raise ValueError(f"years must be one-dimensional, one per paper, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int16)
    if array.dtype.kind not in "iu":
        whole = np.array([isinstance(y, (int, float, np.number)) and y == y and y == int(y) for y in array.tolist()])
        if array.dtype.kind not in "fO" or not whole.all():
            first = int(np.argmin(whole))
            raise ValueError(
                f"years[{first}] is {array[first]!r}: every paper needs a whole year; leave out papers without one"
            )
        array = array.astype(np.int64)
    if array.min() < 0 or array.max() > 9999:
        first = int(np.argmax((array < 0) | (array > 9999)))
        raise ValueError(f"years[{first}] is {array[first]}, not a year in [0, 9999]; leave out papers without a year")
    return array.astype(np.int16)


def checked_positions(name: str, positions: npt.ArrayLike, n_papers: int) -> np.ndarray:
    """`positions` as an int32 array; raises `ValueError` where one is not an integer from -1 to ``n_papers - 1``."""
    array = np.asarray(positions)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integer positions, got {array.dtype}; for names use CitationGraph.from_ids")
    if array.min() < -1 or array.max() >= n_papers:
        first = int(np.argmax((array < -1) | (array >= n_papers)))
        raise ValueError(
            f"{name}[{first}] is {array[first]} but there are {n_papers} papers (years), so positions go from 0 to "
            f"{n_papers - 1}; use -1 for a paper that is unknown"
        )
    return array.astype(np.int32, copy=False)
