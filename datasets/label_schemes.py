"""Scores and labels from the measures: who is novel, who is disruptive, and who is eligible for a label at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .disruption import checked_window
from .paper import DISRUPTION_THRESHOLD, NOVELTY_CUT
from .percentiles import group_numbers, share_higher, share_lower

LABEL_TYPE = np.dtype("<U13")


def novelty_score(z10: npt.ArrayLike, years: npt.ArrayLike) -> np.ndarray:
    """Share of the papers of the same year whose z10 is higher; float64 (N,) in [0, 1], NaN where z10 is.

    Examples
    --------
    >>> novelty_score([-3.0, 1.0, 2.0, float("nan")], [2000] * 4).round(2).tolist()
    [0.67, 0.33, 0.0, nan]
    """
    return share_higher(z10, np.asarray(years))


def conventionality_score(z_median: npt.ArrayLike, years: npt.ArrayLike) -> np.ndarray:
    """Share of the papers of the same year whose z_median is lower; float64 (N,) in [0, 1], NaN where z_median is.

    Examples
    --------
    >>> conventionality_score([-3.0, 1.0, 2.0], [2000, 2000, 2001]).tolist()
    [0.0, 0.5, 0.0]
    """
    return share_lower(z_median, np.asarray(years))


def novelty_labels(novelty: npt.ArrayLike, conventionality: npt.ArrayLike) -> np.ndarray:
    """``novel`` where only the novelty score reaches 2/3, ``conventional`` where only the other does, or ``balanced``.

    Parameters
    ----------
    novelty, conventionality : float array-like (N,)
        From `novelty_score` and `conventionality_score`.

    Returns
    -------
    str array (N,)
        "" where a score is undefined.

    Examples
    --------
    >>> novelty_labels([0.9, 0.1, 0.9, float("nan")], [0.1, 0.9, 0.9, 0.5]).tolist()
    ['novel', 'conventional', 'balanced', '']
    """
    novelty, conventionality = _pair("novelty", novelty, "conventionality", conventionality)
    undefined = np.isnan(novelty) | np.isnan(conventionality)
    return _by_two(novelty >= NOVELTY_CUT, conventionality >= NOVELTY_CUT, undefined)


def uzzi_labels(z10: npt.ArrayLike, z_median: npt.ArrayLike, years: npt.ArrayLike) -> np.ndarray:
    """The cuts of Uzzi et al.: tail novelty where z10 < 0, conventionality where z_median is above the year's median.

    Returns
    -------
    str array (N,)
        ``novel`` or ``conventional`` where only one of the two holds, ``balanced`` where both or neither do, "" where
        undefined.

    Examples
    --------
    >>> uzzi_labels([-1.0, 1.0, -1.0], [0.0, 9.0, 9.0], [2000] * 3).tolist()
    ['novel', 'balanced', 'novel']

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), "Atypical combinations and scientific impact", Science 342.
    """
    low, middle = _pair("z10", z10, "z_median", z_median)
    year = group_numbers(low.size, np.asarray(years))
    undefined = np.isnan(low) | np.isnan(middle)
    cut = np.array([_median(middle[(year == y) & ~undefined]) for y in range(year.max(initial=-1) + 1)] or [np.nan])
    with np.errstate(invalid="ignore"):
        return _by_two(low < 0, middle > cut[year], undefined)


def disruption_labels(
    cd: npt.ArrayLike,
    scheme: str = "threshold",
    *,
    threshold: float = DISRUPTION_THRESHOLD,
    fields: Sequence[Any] | np.ndarray | None = None,
    years: npt.ArrayLike | None = None,
) -> np.ndarray:
    """``disruptive``, ``neutral`` or ``consolidating``, by fixed cuts or by tertiles of field and year.

    Parameters
    ----------
    cd : float array-like (N,)
    scheme : {"threshold", "quantile"}
        ``threshold``: above `threshold`, below its negative, or between. ``quantile``: disruptive where at least two
        thirds of the papers of the same field and year are lower, consolidating where at least two thirds are higher.
    threshold : float in [0, 1)
    fields, years : array-like (N,)
        For ``quantile``.

    Returns
    -------
    str array (N,)
        "" where CD is undefined.

    Raises
    ------
    ValueError
        An unknown scheme, or ``quantile`` without fields and years.

    Examples
    --------
    >>> disruption_labels([0.3, 0.0, -0.3, float("nan")]).tolist()
    ['disruptive', 'neutral', 'consolidating', '']
    >>> disruption_labels([0.03, 0.02, 0.01], "quantile", fields=["x"] * 3, years=[2000] * 3).tolist()
    ['disruptive', 'neutral', 'consolidating']
    """
    values = np.asarray(cd, np.float64)
    if scheme == "threshold":
        high, low = values > threshold, values < -threshold
    elif scheme == "quantile":
        if fields is None or years is None:
            raise ValueError("scheme 'quantile' compares papers of one field and year: give fields and years")
        keys = (fields, np.asarray(years))
        high, low = share_lower(values, *keys) >= 2 / 3, share_higher(values, *keys) >= 2 / 3
    else:
        raise ValueError(f"scheme must be 'threshold' or 'quantile', got {scheme!r}")
    labels = np.full(values.size, "neutral", LABEL_TYPE)
    labels[high], labels[low], labels[np.isnan(values)] = "disruptive", "consolidating", ""
    return labels


def eligible(
    reference_counts: npt.ArrayLike,
    citations_in_window: npt.ArrayLike,
    years: npt.ArrayLike,
    last_complete_year: int,
    window: int | None = 5,
    *,
    min_references: int = 5,
    min_citations: int = 5,
) -> np.ndarray:
    """Is there enough behind a paper's CD index to call it a label?

    Parameters
    ----------
    reference_counts, citations_in_window, years : int array-like (N,)
    last_complete_year : int
        The last year of which the data holds all papers. A window must close before it.
    window : int or None
        None: every window counts as closed.
    min_references, min_citations : int

    Returns
    -------
    bool array (N,)

    Examples
    --------
    >>> eligible([0, 9, 9, 9], [9, 9, 9, 2], [2000, 2000, 2018, 2000], last_complete_year=2020).tolist()
    [False, True, False, False]
    """
    enough = (np.asarray(reference_counts) >= min_references) & (np.asarray(citations_in_window) >= min_citations)
    span = checked_window(window)
    if span is None:
        return enough
    return enough & (np.asarray(years).astype(np.int64) + span < last_complete_year)


def _by_two(novel: np.ndarray, conventional: np.ndarray, undefined: np.ndarray) -> np.ndarray:
    labels = np.full(novel.size, "balanced", LABEL_TYPE)
    labels[novel & ~conventional], labels[conventional & ~novel], labels[undefined] = "novel", "conventional", ""
    return labels


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else np.nan


def _pair(name_a: str, a: npt.ArrayLike, name_b: str, b: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(f"{name_a} has shape {left.shape} and {name_b} {right.shape}; give one of each per paper")
    return left, right
