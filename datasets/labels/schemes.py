"""Scores and labels from the measures: who is novel, and who is disruptive.

Every label is "" where the scores that it follows from are undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..novelty.atypicality import Atypicality
from ..paper import DISRUPTION_ORDER, NOVELTY_CUT, side_of
from ..percentiles import group_numbers, group_percentile, share_higher, share_lower
from .eligibility import LabelRules

LABEL_TYPE = np.dtype("<U13")
DISRUPTION_NAMES = np.array(["", *DISRUPTION_ORDER], LABEL_TYPE)
"""Disruption labels by their codes."""
NOVELTY_NAMES = np.array(["", "balanced", "novel", "conventional"], LABEL_TYPE)
"""Novelty labels by their codes."""


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

    The scores, float array-like (N,), are from `novelty_score` and `conventionality_score`.

    Examples
    --------
    >>> novelty_labels([0.9, 0.1, 0.9, float("nan")], [0.1, 0.9, 0.9, 0.5]).tolist()
    ['novel', 'conventional', 'balanced', '']
    """
    return NOVELTY_NAMES[_novelty_codes(*_pair("novelty", novelty, "conventionality", conventionality))]


def _novelty_codes(novelty: np.ndarray, conventionality: np.ndarray) -> np.ndarray:
    undefined = np.isnan(novelty) | np.isnan(conventionality)
    return _by_two(novelty >= NOVELTY_CUT, conventionality >= NOVELTY_CUT, undefined)


def uzzi_labels(z10: npt.ArrayLike, z_median: npt.ArrayLike, years: npt.ArrayLike) -> np.ndarray:
    """The cuts of Uzzi et al.: tail novelty where z10 < 0, conventionality where z_median is above the year's median.

    ``novel`` or ``conventional`` where only one of the two holds, ``balanced`` where both or neither do.

    Examples
    --------
    >>> uzzi_labels([-1.0, 1.0, -1.0], [0.0, 9.0, 9.0], [2000] * 3).tolist()
    ['novel', 'balanced', 'novel']

    References
    ----------
    Uzzi, Mukherjee, Stringer & Jones (2013), "Atypical combinations and scientific impact", Science 342.
    """
    return NOVELTY_NAMES[_uzzi_codes(*_pair("z10", z10, "z_median", z_median), years)]


def _uzzi_codes(low: np.ndarray, middle: np.ndarray, years: npt.ArrayLike) -> np.ndarray:
    year = group_numbers(low.size, np.asarray(years))
    undefined = np.isnan(low) | np.isnan(middle)
    cut = np.full(low.size, np.nan)
    for number in np.unique(year[~undefined]):
        cut[year == number] = np.median(middle[(year == number) & ~undefined])
    return _by_two(low < 0, middle > cut, undefined)


def sampled_labels(
    result: Atypicality, years: npt.ArrayLike, scheme: str = "threshold"
) -> tuple[np.ndarray, np.ndarray]:
    """Novelty labels that another sample of null networks would give again, and which were withheld for the others.

    A label is withheld where one of the halves of the null networks (see `Atypicality`) gives another label: half of
    the networks differ from all of them by about the sampling error, and there are 14 halves, so this is where the cut
    lies within 1.5 to 2 standard errors.

    `scheme` is ``"threshold"`` (see `novelty_labels`) or ``"uzzi"`` (see `uzzi_labels`).

    Returns
    -------
    labels : str array (N,)
        "" also where withheld.
    withheld : bool array (N,)
        False where the scores are undefined.
    """
    codes, withheld = sampled_codes(result, years, scheme)
    return NOVELTY_NAMES[codes], withheld


def sampled_codes(
    result: Atypicality, years: npt.ArrayLike, scheme: str = "threshold"
) -> tuple[np.ndarray, np.ndarray]:
    """`sampled_labels` with places in `NOVELTY_NAMES`, int8 (N,), for labels: a byte a paper and not 52."""
    if scheme not in ("threshold", "uzzi"):
        raise ValueError(f"scheme must be 'threshold' or 'uzzi', got {scheme!r}")

    def codes_of(z10: np.ndarray, z_median: np.ndarray) -> np.ndarray:
        if scheme == "uzzi":
            return _uzzi_codes(z10, z_median, years)
        return _novelty_codes(novelty_score(z10, years), conventionality_score(z_median, years))

    codes = codes_of(result.z10, result.z_median)
    withheld = np.zeros(codes.size, bool)
    for half in result.halves:
        withheld |= codes_of(*half) != codes
    withheld &= codes != 0
    codes[withheld] = 0
    return codes, withheld


def half_sample_agreement(
    result: Atypicality, years: npt.ArrayLike
) -> list[tuple[int, int, float | None, float | None]]:
    """How well two halves of the null networks agree on the scores of every year; two whole samples agree better.

    Returns
    -------
    list of (year, papers, z10, z_median)
        For every year with at least 3 papers that both halves give scores: how many they are, and Spearman's
        correlations; None where a half gives all papers the same score.
    """
    first, second = result.halves[0], result.halves[len(result.halves) // 2]
    year = np.asarray(years)
    scored = ~np.isnan(first).any(axis=0) & ~np.isnan(second).any(axis=0)
    agreement = []
    for value, papers in zip(*np.unique(year[scored], return_counts=True), strict=True):
        if papers < 3:
            continue
        of_year = scored & (year == value)
        ranks = [np.stack([group_percentile(half[k, of_year]) for half in (first, second)]) for k in (0, 1)]
        correlations = (float(np.corrcoef(pair)[0, 1]) if np.ptp(pair, axis=1).min() > 0 else None for pair in ranks)
        agreement.append((int(value), int(papers), *correlations))
    return agreement


def disruption_labels(
    cd: npt.ArrayLike,
    rules: LabelRules = LabelRules(),  # noqa: B008  (frozen)
    *,
    fields: Sequence[Any] | np.ndarray | None = None,
    years: npt.ArrayLike | None = None,
    among: np.ndarray | None = None,
) -> np.ndarray:
    """``disruptive``, ``neutral`` or ``consolidating``, by fixed cuts or by the tertiles of field and year.

    Parameters
    ----------
    cd : float array-like (N,)
    rules : LabelRules
        ``scheme="threshold"``: disruptive above ``rules.threshold``, consolidating below its negative, neutral between
        them (both included). ``"quantile"``: see `tertile_cuts`; "" where a field and year has no cuts.
    fields, years, among
        For ``quantile``: as in `tertile_cuts`.

    Raises `ValueError` for ``quantile`` without fields and years.

    Examples
    --------
    >>> disruption_labels([0.3, 0.0, -0.3, float("nan")]).tolist()
    ['disruptive', 'neutral', 'consolidating', '']
    >>> rules = LabelRules("quantile", min_group=3)
    >>> disruption_labels([0.03, 0.02, 0.01], rules, fields=["x"] * 3, years=[2000] * 3).tolist()
    ['disruptive', 'neutral', 'consolidating']
    """
    return DisruptionCuts.of(cd, rules, fields, years, among).labels(cd)


@dataclass(frozen=True, eq=False)
class DisruptionCuts:
    """Lowest and highest CD index that is neutral, for every paper: by fixed cuts or by its field and year.

    `group`, integer (N,), is the number of each paper's field and year, and None where the cuts are the same for all;
    `low` and `high` are float64 arrays with a place for each number (one place without groups), NaN for no cuts.
    """

    group: np.ndarray | None
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(
        cls,
        cd: npt.ArrayLike,
        rules: LabelRules,
        fields: Sequence[Any] | np.ndarray | None = None,
        years: npt.ArrayLike | None = None,
        among: np.ndarray | None = None,
    ) -> DisruptionCuts:
        """The cuts by `rules`; arguments and errors are those of `disruption_labels`."""
        if rules.scheme == "threshold":
            return cls(None, np.array([-rules.threshold]), np.array([rules.threshold]))
        if fields is None or years is None:
            raise ValueError("scheme 'quantile' compares papers of one field and year: give fields and years")
        return cls(*_tertiles(np.asarray(cd, np.float64), fields, years, among, rules.min_group))

    def labels(self, cd: npt.ArrayLike, papers: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Labels of `papers` (all) by their CD index, float (M,); str (M,), "" where there is no index or no cut."""
        return DISRUPTION_NAMES[self.codes(cd, papers)]

    def codes(self, cd: npt.ArrayLike, papers: np.ndarray | slice = slice(None)) -> np.ndarray:
        """`labels` as places in `DISRUPTION_NAMES`, int8 (M,): a byte a paper and not 52."""
        values = np.asarray(cd, np.float64)
        group = 0 if self.group is None else self.group[papers]
        low, high = self.low[group], self.high[group]
        codes = (2 + side_of(values, low, high)).astype(np.int8)
        codes[np.isnan(values) | np.isnan(low)] = 0
        return codes


def tertile_cuts(
    cd: npt.ArrayLike,
    fields: Sequence[Any] | np.ndarray,
    years: npt.ArrayLike,
    min_group: int,
    among: np.ndarray | None = None,
) -> dict[tuple[Any, int], tuple[float, float]]:
    """Lowest and highest CD index that is neutral, for every field and year: the cuts between the tertiles.

    A paper is disruptive when at least two thirds of the compared papers of its field and year have a lower CD index,
    consolidating when at least two thirds have a higher one, and neutral otherwise. So papers with the same value have
    the same label, neither end has more than a third of the papers, and n different values make floor(n / 3)
    consolidating and floor(n / 3) disruptive papers.

    Parameters
    ----------
    cd : float array-like (N,)
        NaN: not compared.
    fields, years : array-like (N,)
    min_group : int >= 1
        Papers that a field and year needs to have cuts.
    among : bool (N,), optional
        The papers that are compared; None: all.

    Returns
    -------
    dict
        ``(field, year) -> (low, high)``, sorted.

    Examples
    --------
    >>> tertile_cuts([0.1, 0.2, 0.3, 0.3, 0.9], ["x"] * 5, [2000] * 5, min_group=3)
    {('x', 2000): (0.2, 0.3)}
    """
    keys = np.asarray(fields), np.asarray(years)
    group, lows, highs = _tertiles(np.asarray(cd, np.float64), *keys, among, min_group)
    numbers, first = np.unique(group, return_index=True)
    cuts = {
        (keys[0][i].item(), keys[1][i].item()): (float(lows[number]), float(highs[number]))
        for number, i in zip(numbers.tolist(), first.tolist(), strict=True)
        if not np.isnan(lows[number])
    }
    return dict(sorted(cuts.items()))


def _tertiles(
    cd: np.ndarray, fields: Any, years: Any, among: np.ndarray | None, min_group: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of each paper's field and year, and by that number the lowest and highest neutral value (NaN: too few)."""
    group = group_numbers(cd.size, fields, np.asarray(years))
    papers = np.flatnonzero(~np.isnan(cd) if among is None else among & ~np.isnan(cd))
    compared, numbers = cd[papers], group[papers]
    size = np.bincount(numbers, minlength=int(group.max(initial=-1)) + 1)
    neutral = (share_lower(compared, numbers) < 2 / 3) & (share_higher(compared, numbers) < 2 / 3)
    low, high = np.full(size.size, np.inf), np.full(size.size, -np.inf)
    np.minimum.at(low, numbers[neutral], compared[neutral])
    np.maximum.at(high, numbers[neutral], compared[neutral])
    low[size < max(1, min_group)] = high[size < max(1, min_group)] = np.nan
    return group, low, high


def _by_two(novel: np.ndarray, conventional: np.ndarray, undefined: np.ndarray) -> np.ndarray:
    codes = np.ones(novel.size, np.int8)
    codes[novel & ~conventional], codes[conventional & ~novel], codes[undefined] = 2, 3, 0
    return codes


def _pair(name_a: str, a: npt.ArrayLike, name_b: str, b: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    left, right = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError(f"{name_a} has shape {left.shape} and {name_b} {right.shape}; give one of each per paper")
    return left, right
