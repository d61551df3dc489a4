"""Which papers get a label, and which label: eligibility by named rules, then the `threshold` or `quantile` scheme."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .paper import DISRUPTION_THRESHOLD, DisruptionLabel, disruption_label
from .works_table import WorksTable


@dataclass(frozen=True)
class LabelRules:
    """What makes a paper eligible for a disruption label, and how the label is cut.

    Parameters
    ----------
    scheme : "threshold" | "quantile"
        ``threshold``: CD above / below +-`threshold`. ``quantile``: tertiles of CD among the eligible papers of the
        same field and year; equal values are never torn apart.
    threshold : float in [0, 1)
    window : int >= 1
        Years after publication whose citations count.
    min_references, min_citations : int
        References in the data, and citations inside the window, that a paper needs.
    last_complete_year : int or None
        A window must have closed by the end of it. None: the last year that holds at least half as many works as the
        fullest year (the newest year of a snapshot is nearly always a part of a year).
    min_group : int
        Under ``quantile``: papers that a field and year needs before its tertiles mean anything.
    language : str or None
        Keep papers of this language, or of none stated. None keeps all.
    """

    scheme: str = "threshold"
    threshold: float = DISRUPTION_THRESHOLD
    window: int = 5
    min_references: int = 5
    min_citations: int = 5
    last_complete_year: int | None = None
    min_group: int = 15
    language: str | None = "en"

    def __post_init__(self) -> None:
        if self.scheme not in ("threshold", "quantile"):
            raise ValueError(f"label scheme must be threshold or quantile, got {self.scheme!r}")
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must be in [0, 1), got {self.threshold!r}")
        for name, low in (("window", 1), ("min_references", 0), ("min_citations", 0), ("min_group", 3)):
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)!r}")


NOT_ARTICLES = frozenset(
    {"paratext", "erratum", "retraction", "editorial", "letter", "peer-review", "grant", "supplementary-materials"}
)
"""OpenAlex work types that make no contribution of their own, so that asking whether they disrupt has no answer."""


def last_complete_year(years: np.ndarray) -> int:
    """The last year with at least half as many works as the fullest year.

    Examples
    --------
    >>> last_complete_year(np.array([2000] * 10 + [2001] * 8 + [2002] * 3 + [2050]))
    2001
    """
    found, counts = np.unique(years, return_counts=True)
    return int(found[counts * 2 >= counts.max()].max())


def eligibility(
    works: WorksTable,
    cd: np.ndarray,
    references: np.ndarray,
    citations: np.ndarray,
    rules: LabelRules,
    closed_by: int,
    outside: Sequence[tuple[str, np.ndarray]] = (),
) -> tuple[np.ndarray, Counter[str]]:
    """Which papers can be focal papers.

    Parameters
    ----------
    works : WorksTable of N works
    cd : float64 (N,), NaN where undefined
    references, citations : int64 (N,)
        References in the data; citations inside the window.
    closed_by : int
        The last complete year.
    outside : sequence of (reason, bool (N,))
        Rules that come before all others.

    Returns
    -------
    eligible : bool (N,)
    reasons : Counter
        For the others: the first rule, in the order below, that left each out.
    """
    checks: list[tuple[str, np.ndarray]] = [
        ("no_title", works.is_empty("title")),
        ("no_abstract", works.is_empty("abstract")),
        ("paratext", works.column("is_paratext")),
        ("retracted", works.column("is_retracted")),
        ("not_an_article", works.is_in("type", sorted(NOT_ARTICLES))),
        ("window_not_closed", works.year + rules.window > closed_by),
        ("few_references", references < rules.min_references),
        ("few_citations", citations < rules.min_citations),
        ("cd_undefined", np.isnan(cd)),
    ]
    if rules.language is not None:
        checks.insert(5, ("other_language", ~works.is_in("language", [rules.language, ""])))
    return first_failures([*outside, *checks], works.num_rows)


def first_failures(checks: Sequence[tuple[str, np.ndarray]], size: int) -> tuple[np.ndarray, Counter[str]]:
    """What passes every check, bool (size,), and how many the others failed, each counted under its first failure."""
    passed = np.ones(size, dtype=bool)
    reasons: Counter[str] = Counter()
    for name, failed in checks:
        reasons[name] = int((passed & failed).sum())
        passed &= ~failed
    return passed, reasons


def label_papers(
    cd: np.ndarray, years: np.ndarray, fields: list[str], rules: LabelRules
) -> tuple[np.ndarray, Counter[str]]:
    """Disruption labels of eligible papers.

    Parameters
    ----------
    cd : float64 (M,), no NaN
    years : int (M,)
    fields : M strings

    Returns
    -------
    labels : object (M,) of str, None where the scheme gives none
    reasons : Counter
        ``small_field_year``: papers whose field and year has fewer than `rules.min_group` eligible papers.
    """
    if rules.scheme == "threshold":
        labels = [disruption_label(value, rules.threshold) for value in cd.tolist()]
        return np.array(labels, dtype=object), Counter()
    labels = np.full(len(cd), None, dtype=object)
    reasons: Counter[str] = Counter()
    cuts = tertile_cuts(cd, years, fields, rules)
    for position, key in enumerate(zip(fields, years.tolist(), strict=True)):
        if key in cuts:
            labels[position] = tertile_label(float(cd[position]), *cuts[key])
        else:
            reasons["small_field_year"] += 1
    return labels, reasons


def tertile_cuts(
    cd: np.ndarray, years: np.ndarray, fields: list[str], rules: LabelRules
) -> dict[tuple[str, int], tuple[float, float]]:
    """Cuts between the thirds of every field and year that has `rules.min_group` eligible papers."""
    groups: dict[tuple[str, int], list[int]] = {}
    for position, key in enumerate(zip(fields, years.tolist(), strict=True)):
        groups.setdefault(key, []).append(position)
    return {
        key: tuple(np.quantile(cd[members], [1 / 3, 2 / 3]).tolist())
        for key, members in sorted(groups.items())
        if len(members) >= rules.min_group
    }


def tertile_label(cd: float, low: float, high: float) -> DisruptionLabel:
    """Bottom third consolidating, top third disruptive; a value equal to a cut is neutral, so ties stay together.

    Examples
    --------
    >>> tertile_label(-0.2, -0.1, 0.0), tertile_label(0.0, -0.1, 0.0)
    ('consolidating', 'neutral')
    """
    return "consolidating" if cd < low else "disruptive" if cd > high else "neutral"
