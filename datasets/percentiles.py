"""Where a paper stands among comparable papers: percentiles within groups such as field and year.

In every function `values` are N floats, NaN where undefined (such papers belong to no group), papers with equal `keys`
(arrays of N; without keys, all papers) form a group, and the result is float64 (N,), NaN where `values` is.
Keys of another length raise `ValueError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def group_percentile(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Share of the papers of the same group that are lower, ties counting half: in (0, 1), 0.5 for a paper alone.

    Examples
    --------
    >>> group_percentile([1.0, 2.0, 2.0, 9.0], ["a", "a", "a", "b"]).round(3).tolist()
    [0.167, 0.667, 0.667, 0.5]

    References
    ----------
    Waltman & Schreiber (2013), "On the calculation of percentile-based bibliometric indicators", JASIST 64(2): a paper
    is the interval of the distribution that it and its ties fill; this is its middle.
    """
    lower, not_higher = _shares(values, *keys)
    return (lower + not_higher) / 2


def share_lower(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Share of the papers of the same group, itself included, whose value is lower: in [0, 1).

    Examples
    --------
    >>> share_lower([1.0, 2.0, 2.0, float("nan")]).round(3).tolist()
    [0.0, 0.333, 0.333, nan]
    """
    return _shares(values, *keys)[0]


def share_higher(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Share of the papers of the same group, itself included, whose value is higher: in [0, 1).

    Examples
    --------
    >>> share_higher([1.0, 2.0, 2.0, float("nan")]).round(3).tolist()
    [0.667, 0.0, 0.0, nan]
    """
    return _shares(-np.asarray(values, np.float64), *keys)[0]


def group_numbers(size: int, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Number of each paper's group, int64 (size,); groups are distinct combinations of `keys`."""
    group = np.zeros(size, np.int64)
    for number, key in enumerate(keys):
        array = np.asarray(key)
        if array.shape != (size,):
            raise ValueError(
                f"grouping key {number} has shape {array.shape} but there are {size} values; give one each"
            )
        _, code = np.unique(array, return_inverse=True)
        _, group = np.unique(group * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return group.astype(np.int64)


def _shares(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of the group that is lower, and share that is lower or equal."""
    array = np.asarray(values, np.float64)
    group = group_numbers(array.size, *keys)
    shares = np.full((2, array.size), np.nan)
    defined = np.flatnonzero(~np.isnan(array))
    order = defined[np.lexsort((array[defined], group[defined]))]
    if order.size:
        new_group = np.append(True, group[order][1:] != group[order][:-1])
        new_value = new_group | np.append(True, array[order][1:] != array[order][:-1])
        begin, end = _runs(new_group)
        shares[:, order] = (np.stack(_runs(new_value)) - begin) / (end - begin)
    return shares[0], shares[1]


def _runs(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and one-past-last place of the run that each entry belongs to; `new` marks where runs start."""
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.append(starts[1:], new.size)[run]
