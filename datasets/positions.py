"""Where ids stand in a list of ids: the one look-up that all joins of papers use."""

from __future__ import annotations

import numpy as np


def positions_of(wanted: np.ndarray, ids: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """Position of each wanted id in `ids`.

    Parameters
    ----------
    wanted : array (M,)
        Integers or strings, as `ids`.
    ids : array (N,)
        In any order. Of an id that occurs more than once, the first position is given.
    order : int array (N,), optional
        ``np.argsort(ids, kind="stable")``, for callers that look up more than once.

    Returns
    -------
    int64 array (M,)
        -1 for an id that is not there.

    Examples
    --------
    >>> positions_of(np.array([7, 8, 9]), np.array([9, 7])).tolist()
    [1, -1, 0]
    """
    if ids.size == 0:
        return np.full(wanted.size, -1, np.int64)
    order = np.argsort(ids, kind="stable") if order is None else order
    # Ids that are looked up in ascending order are found in memory that the one before has brought into the cache.
    ascending = np.argsort(wanted)
    sought = wanted[ascending]
    found = order[np.minimum(np.searchsorted(ids, sought, sorter=order), ids.size - 1)]
    position = np.empty(wanted.size, np.int64)
    position[ascending] = np.where(ids[found] == sought, found, -1)
    return position
