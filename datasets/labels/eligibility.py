"""Which papers can carry a label: the rules of eligibility, by name, and the last complete year."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..openalex.notices import MARKED_TITLE, NOTICE_TITLE, WITHDRAWN_ABSTRACT
from ..openalex.works_table import WorksTable
from ..paper import DISRUPTION_THRESHOLD


@dataclass(frozen=True)
class LabelRules:
    """What makes a paper eligible for a disruption label, and how the label is cut."""

    scheme: str = "threshold"
    """``threshold`` or ``quantile``, see `disruption_labels`."""
    threshold: float = DISRUPTION_THRESHOLD
    """In [0, 1)."""
    window: int = 5
    """Years after publication, 1 or more, whose citations count, for every label that looks ahead: disruption, citation
    percentile and hit. So the windows of all labels of a paper close in the same year."""
    min_references: int = 5
    """References in the data that a paper needs."""
    min_citations: int = 5
    """Citations inside the window that a paper needs."""
    last_complete_year: int | None = None
    """A window must have closed by the end of it. None: `last_complete_year` of the data."""
    min_group: int = 15
    """Under ``quantile``: papers, 3 or more, that a field and year needs before its tertiles mean anything."""
    language: str | None = "en"
    """Keep papers of this language, or of none stated. None keeps all."""

    def __post_init__(self) -> None:
        if self.scheme not in ("threshold", "quantile"):
            raise ValueError(f"label scheme must be threshold or quantile, got {self.scheme!r}")
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must be in [0, 1), got {self.threshold!r}")
        for name, low in (("window", 1), ("min_references", 0), ("min_citations", 0), ("min_group", 3)):
            if getattr(self, name) < low:
                raise ValueError(f"{name} must be at least {low}, got {getattr(self, name)!r}")

    def closed_by(self, years: np.ndarray) -> int:
        """The last complete year: the one that was given, or `last_complete_year` of the data."""
        return last_complete_year(years) if self.last_complete_year is None else self.last_complete_year


NOT_ARTICLES = frozenset(
    {"paratext", "erratum", "retraction", "editorial", "letter", "peer-review", "grant", "supplementary-materials"}
)
"""OpenAlex work types that make no contribution of their own, so that asking whether they disrupt has no answer."""


def last_complete_year(years: np.ndarray) -> int:
    """The last year with at least half as many works as the fullest year.

    The newest year of a snapshot is nearly always a part of a year.

    Examples
    --------
    >>> last_complete_year(np.array([2000] * 10 + [2001] * 8 + [2002] * 3 + [2050]))
    2001
    """
    distinct, counts = np.unique(years, return_counts=True)
    return int(distinct[counts * 2 >= counts.max()].max())


def content_checks(works: WorksTable, rules: LabelRules) -> list[tuple[str, np.ndarray]]:
    """The rules of eligibility about what a work is: ``(reason, bool (N,): who fails)``."""
    checks = [
        ("no_title", works.is_empty("title")),
        ("no_abstract", works.is_empty("abstract")),
        ("paratext", works.column("is_paratext")),
        ("retracted", works.column("is_retracted")),
        ("withdrawn", works.matches("title", MARKED_TITLE) | works.matches("abstract", WITHDRAWN_ABSTRACT)),
        ("not_an_article", works.is_in("type", sorted(NOT_ARTICLES)) | works.matches("title", NOTICE_TITLE)),
    ]
    if rules.language is not None:
        checks.append(("other_language", ~works.is_in("language", [rules.language, ""])))
    return checks


def number_checks(
    years: np.ndarray, references: np.ndarray, citations: np.ndarray, cd: np.ndarray, rules: LabelRules, closed_by: int
) -> list[tuple[str, np.ndarray]]:
    """The rules of eligibility about a work's place in the citation graph: ``(reason, bool (N,): who fails)``.

    `citations` are those inside the window (n_i + n_j); a window that ends with the year `closed_by` is closed.
    """
    return [
        ("window_not_closed", years + rules.window > closed_by),
        ("few_references", references < rules.min_references),
        ("few_citations", citations < rules.min_citations),
        ("cd_undefined", np.isnan(cd)),
    ]


def first_failures(checks: Sequence[tuple[str, np.ndarray]], size: int) -> tuple[np.ndarray, Counter[str]]:
    """What passes every check, bool (size,), and how many the others failed, each counted under its first failure."""
    passed = np.ones(size, dtype=bool)
    reasons: Counter[str] = Counter()
    for name, failed in checks:
        reasons[name] = int((passed & failed).sum())
        passed &= ~failed
    return passed, reasons
