"""What a citation graph is made from, checked: years, positions and ids of papers, and columns of tables."""

from collections.abc import Iterable
from typing import Any

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


def checked_ids(name: str, ids: Any, like: np.ndarray | None = None) -> np.ndarray:
    """`ids` as an array of integers or of strings; raises `ValueError` where one is missing or of another type.

    Whole floats become integers: a table that once had a missing value holds its integers so. With `like`, ids of the
    other type than those of `like` are refused too.
    """
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind not in "iuUS":
        values = array.tolist()
        kind = str if values and isinstance(values[0], str) else int
        fits = [isinstance(v, kind) or (kind is int and isinstance(v, float) and v.is_integer()) for v in values]
        if not all(fits):
            first = fits.index(False)
            raise ValueError(
                f"{name}[{first}] is {values[first]!r}: ids must be all integers or all strings, none missing; "
                "leave out what has none, or turn all ids into strings"
            )
        array = array.astype(str if kind is str else np.int64)
    if like is None or (array.dtype.kind in "iu") == (like.dtype.kind in "iu"):
        return array
    if array.size == 0:
        return array.astype(like.dtype)
    types = ("integers", "strings") if array.dtype.kind in "iu" else ("strings", "integers")
    raise ValueError(f"{name} holds {types[0]} but the papers have {types[1]} for ids; turn all into strings")


def require_columns(name: str, present: Iterable[Any], columns: Iterable[str]) -> None:
    """Raise `ValueError` for the first of `columns` that the table called `name` does not have."""
    there = list(present)
    for column in columns:
        if column not in there:
            raise ValueError(
                f"{name} has no column {column!r}, only {', '.join(map(str, there))}; rename the one meant"
            )
