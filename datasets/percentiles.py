"""Where a paper stands among comparable papers: percentiles within groups such as field and year.

In every function `values` are N floats, NaN where undefined (such papers belong to no group), papers with equal `keys`
(arrays of N; without keys, all papers) form a group, and the result is float64 (N,), NaN where `values` is.
Keys of another length raise `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

AT_A_TIME = 1 << 21
"""Papers that are ranked together, about; a group is never split."""


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
    return _shares(values, keys, lambda shares: shares.sum(axis=0) / 2)


def share_lower(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Share of the papers of the same group, itself included, whose value is lower: in [0, 1).

    Examples
    --------
    >>> share_lower([1.0, 2.0, 2.0, float("nan")]).round(3).tolist()
    [0.0, 0.333, 0.333, nan]
    """
    return _shares(values, keys, lambda shares: shares[0])


def share_higher(values: npt.ArrayLike, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Share of the papers of the same group, itself included, whose value is higher: in [0, 1).

    Examples
    --------
    >>> share_higher([1.0, 2.0, 2.0, float("nan")]).round(3).tolist()
    [0.667, 0.0, 0.0, nan]
    """
    return _shares(-np.asarray(values, np.float64), keys, lambda shares: shares[0])


def group_numbers(size: int, *keys: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Number of each paper's group, int32 or int64 (size,); groups are distinct combinations of `keys`.

    Some numbers may have no paper; there are at most a few times as many numbers as papers.
    """
    group, groups = np.zeros(size, np.int32), 1
    for number, key in enumerate(keys):
        array = np.asarray(key)
        if array.shape != (size,):
            raise ValueError(
                f"grouping key {number} has shape {array.shape} but there are {size} values; give one each"
            )
        code, kinds = _numbered(array)
        if groups * kinds > max(4 * size, 1 << 16):
            _, group = np.unique(group.astype(np.int64) * kinds + code, return_inverse=True)
            groups = int(group.max(initial=-1)) + 1
        else:
            groups *= kinds
            group = group.astype(np.int32 if groups < 1 << 31 else np.int64, copy=False)
            group *= kinds
            np.add(group, code, out=group, casting="unsafe")
    return group


def _numbered(key: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers from 0 for the values of a key, and how many there are; years and codes are only shifted, not sorted."""
    if key.size and key.dtype.kind in "iu":
        least = int(key.min())
        kinds = int(key.max()) - least + 1
        if kinds <= max(key.size, 1 << 16):
            code = key.astype(np.int32 if key.dtype.itemsize < 4 else np.int64)
            code -= least
            return code.astype(np.int32 if kinds < 1 << 31 else np.int64, copy=False), kinds
    _, code = np.unique(key, return_inverse=True)
    return code, int(code.max(initial=-1)) + 1


def _shares(
    values: npt.ArrayLike, keys: Sequence[Sequence[Any] | np.ndarray], share: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """``share`` of each paper's standing: of a float64 array (2, M), the share of the group that is lower and the share
    that is lower or equal, for a part of the papers after another."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        array = array.astype(np.float64)
    group = group_numbers(array.size, *keys)
    shares = np.full(array.size, np.nan)
    for papers in _whole_groups(array, group):
        order = papers[np.lexsort((array[papers], group[papers]))]
        new_group = np.append(True, group[order][1:] != group[order][:-1])
        new_value = new_group | np.append(True, array[order][1:] != array[order][:-1])
        begin, end = _runs(new_group)
        shares[order] = share((np.stack(_runs(new_value)) - begin) / (end - begin))
    return shares


def _whole_groups(values: np.ndarray, group: np.ndarray) -> Iterator[np.ndarray]:
    """Positions of the papers that have a value, those of about `AT_A_TIME` papers' groups after another."""
    if values.size <= AT_A_TIME:
        low_high = [(0, int(group.max(initial=-1)) + 1)]
    else:
        pieces = np.array_split(group, values.size // AT_A_TIME + 1)
        sizes = np.sum([np.bincount(piece, minlength=int(group.max()) + 1) for piece in pieces], axis=0)
        number = np.cumsum(sizes) // AT_A_TIME
        cuts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), number.size]
        low_high = list(pairwise(cuts))
    for low, high in low_high:
        papers = np.flatnonzero((group >= low) & (group < high))
        papers = papers[~np.isnan(values[papers])]
        if papers.size:
            yield papers


def _runs(new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and one-past-last place of the run that each entry belongs to; `new` marks where runs start."""
    starts = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    return starts[run], np.append(starts[1:], new.size)[run]
