"""`Paper`: one publication, what was known when it appeared, and the labels its later citations give it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

DisruptionLabel = Literal["disruptive", "consolidating", "neutral"]
NoveltyLabel = Literal["novel", "conventional", "balanced"]
HitLabel = Literal["hit", "ordinary"]
LabelScheme = Literal["threshold", "quantile", "uzzi"]

DISRUPTION_LABELS: tuple[str, ...] = get_args(DisruptionLabel)
DISRUPTION_ORDER: tuple[str, ...] = ("consolidating", "neutral", "disruptive")
NOVELTY_LABELS: tuple[str, ...] = get_args(NoveltyLabel)
HIT_LABELS: tuple[str, ...] = get_args(HitLabel)
LABEL_SCHEMES: tuple[str, ...] = get_args(LabelScheme)

DISRUPTION_THRESHOLD = 0.1
NOVELTY_CUT = 2 / 3
HIT_CUT = 0.95
FIRST_YEAR, LAST_YEAR = 1800, 2100


def disruption_label(cd_index: float, threshold: float = DISRUPTION_THRESHOLD) -> DisruptionLabel:
    """Label of a CD index under the `threshold` scheme.

    Parameters
    ----------
    cd_index : float in [-1, 1]
    threshold : float in [0, 1)
        Disruptive above it, consolidating below its negative, neutral otherwise (both ends included).

    Examples
    --------
    >>> disruption_label(0.3), disruption_label(0.1), disruption_label(-0.11)
    ('disruptive', 'neutral', 'consolidating')
    """
    return DISRUPTION_ORDER[1 + side_of(cd_index, -threshold, threshold)]  # pyright: ignore[reportReturnType]


def side_of(cd_index: Any, low: Any, high: Any) -> Any:
    """1 above `high`, -1 below `low`, 0 from `low` to `high` (both included): the cut of every disruption label.

    Parameters
    ----------
    cd_index, low, high : float or float array (N,)

    Examples
    --------
    >>> side_of(0.1, -0.1, 0.1), side_of(0.2, -0.1, 0.1)
    (0, 1)
    """
    return 1 * (cd_index > high) - 1 * (cd_index < low)


def novelty_label(novelty_score: float, conventionality_score: float) -> NoveltyLabel:
    """Label of the two atypicality percentiles: high on exactly one of them, or balanced.

    Examples
    --------
    >>> novelty_label(0.9, 0.2), novelty_label(0.2, 0.9), novelty_label(0.9, 0.9)
    ('novel', 'conventional', 'balanced')
    """
    is_novel, is_conventional = novelty_score >= NOVELTY_CUT, conventionality_score >= NOVELTY_CUT
    if is_novel == is_conventional:
        return "balanced"
    return "novel" if is_novel else "conventional"


def is_hit(citation_percentile: Any) -> Any:
    """Whether at least 95 % of the papers of its field and year are cited less often: the rule of every hit label.

    Parameters
    ----------
    citation_percentile : float or float array (N,)
        See `Paper.citation_percentile`. NaN is no hit.

    Examples
    --------
    >>> is_hit(0.95), is_hit(0.94)
    (True, False)
    """
    return citation_percentile >= HIT_CUT


def hit_label(citation_percentile: float) -> HitLabel:
    """The name of what `is_hit` says.

    Examples
    --------
    >>> hit_label(0.97), hit_label(0.5)
    ('hit', 'ordinary')
    """
    return "hit" if is_hit(citation_percentile) else "ordinary"


@dataclass(frozen=True)
class Paper:
    """One paper. Frozen; every field is checked when it is made.

    Fields fall into three groups. *Known at publication* (title, abstract, year, field, venue, authors, references)
    may be shown to a model. *Outcomes* (`cited_by_count`, the scores and labels, the counts behind them) come from
    later papers and never reach a prompt. *Provenance* (ids, scheme, window) is for people.

    Parameters
    ----------
    openalex_id : str
        Such as ``"W2100837269"``; any non-empty string.
    title, abstract : str
        The title must not be empty; the abstract may be.
    publication_year : int in [1800, 2100]
    cited_by_count : int >= 0
    cd_index : float in [-1, 1], or None where undefined
    novelty_score, conventionality_score : float in [0, 1], or None where undefined
    disruption_label : "disruptive" | "consolidating" | "neutral" | None
        Follows from `cd_index` when not given under the ``threshold`` scheme.
    novelty_label : "novel" | "conventional" | "balanced" | None
        Follows from the two scores when not given, unless the scheme is ``uzzi`` or the label is withheld.
    novelty_withheld : bool
        The novelty label changes within the sampling error of the scores (another seed of the null networks may give
        another), so the paper has none, although it has scores.
    primary_field : str
    label_scheme : "threshold" | "quantile" | "uzzi"
        What the labels mean. A label that contradicts the scores under it is refused. Under ``quantile`` the cuts
        depend on the paper's field and year, so `disruption_label` must be given.
    reference_titles : tuple of str
        Titles of cited papers that are in the data and certainly appeared before the paper, for prompts that show
        the reference list.
    reference_count : int >= 0
        References of the source's record that are in the data. A record that was updated after publication can hold
        references of a later version, so this number is never shown in a prompt.
    cd_window : int or None
        Years after publication whose citations count, for the CD index as for `citation_percentile`; None for no
        window.
    cd_threshold : float in [0, 1]
        Cut of the ``threshold`` scheme.
    n_i, n_j, n_k : int >= 0 or None
        The counts that `cd_index` is made of.
    citation_percentile : float in [0, 1], or None where unknown
        Share of the papers of its field and year, itself included, that are cited less often from the year of
        publication to `cd_window` years later. A paper is a hit from 0.95 on.
    hit_share : float in [0, 1], or None where unknown
        Share of hits among the training papers of the dataset that the paper belongs to. Labelled papers have a
        minimum of citations, so far more of them than 5 % are hits; prompts state this share.

    Raises
    ------
    ValueError
        Naming the field and the value.

    Examples
    --------
    >>> paper = Paper(openalex_id="W1", title="A theory of everything", cd_index=0.4)
    >>> paper.disruption_label
    'disruptive'
    """

    openalex_id: str
    title: str
    abstract: str = ""
    publication_year: int = 2000
    cited_by_count: int = 0
    cd_index: float | None = None
    novelty_score: float | None = None
    conventionality_score: float | None = None
    disruption_label: DisruptionLabel | None = None
    novelty_label: NoveltyLabel | None = None
    novelty_withheld: bool = False
    primary_field: str = ""
    label_scheme: LabelScheme = "threshold"
    doi: str = ""
    publication_date: str = ""
    venue: str = ""
    authors_count: int = 0
    reference_count: int = 0
    reference_titles: tuple[str, ...] = ()
    cd_window: int | None = 5
    cd_threshold: float = DISRUPTION_THRESHOLD
    n_i: int | None = None
    n_j: int | None = None
    n_k: int | None = None
    citation_percentile: float | None = None
    hit_share: float | None = None

    def __post_init__(self) -> None:
        _require_text("openalex_id", self.openalex_id)
        _require_text("title", self.title)
        for name in ("abstract", "primary_field", "doi", "publication_date", "venue"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a string, got {getattr(self, name)!r}")
        _require_int("publication_year", self.publication_year, FIRST_YEAR, LAST_YEAR)
        if not isinstance(self.novelty_withheld, bool):
            raise ValueError(f"novelty_withheld must be True or False, got {self.novelty_withheld!r}")
        for name in ("cited_by_count", "authors_count", "reference_count"):
            _require_int(name, getattr(self, name), 0)
        for name in ("n_i", "n_j", "n_k"):
            if getattr(self, name) is not None:
                _require_int(name, getattr(self, name), 0)
        if self.cd_window is not None:
            _require_int("cd_window", self.cd_window, 1)
        _require_score("cd_index", self.cd_index, -1.0)
        _require_score("cd_threshold", self.cd_threshold, 0.0)
        _require_score("novelty_score", self.novelty_score, 0.0)
        _require_score("conventionality_score", self.conventionality_score, 0.0)
        _require_score("citation_percentile", self.citation_percentile, 0.0)
        _require_score("hit_share", self.hit_share, 0.0)
        _require_choice("label_scheme", self.label_scheme, LABEL_SCHEMES, optional=False)
        _require_choice("disruption_label", self.disruption_label, DISRUPTION_LABELS)
        _require_choice("novelty_label", self.novelty_label, NOVELTY_LABELS)
        object.__setattr__(self, "reference_titles", tuple(self.reference_titles))
        self._settle_labels()

    def _settle_labels(self) -> None:
        if self.cd_index is not None and self.label_scheme != "quantile":
            implied = disruption_label(self.cd_index, self.cd_threshold)
            self._settle("disruption_label", implied, f"cd_index={self.cd_index!r}")
        if self.novelty_withheld:
            if self.novelty_label is not None:
                raise ValueError(
                    f"novelty_label={self.novelty_label!r} is given and novelty_withheld=True says that there is none; "
                    "leave one of them out"
                )
        elif self.novelty_score is not None and self.conventionality_score is not None and self.label_scheme != "uzzi":
            because = f"novelty_score={self.novelty_score!r}, conventionality_score={self.conventionality_score!r}"
            self._settle("novelty_label", novelty_label(self.novelty_score, self.conventionality_score), because)

    def _settle(self, name: str, implied: str, because: str) -> None:
        given = getattr(self, name)
        if given is None:
            object.__setattr__(self, name, implied)
        elif given != implied:
            raise ValueError(
                f"{name}={given!r} contradicts {because}, which is {implied!r} under label_scheme="
                f"{self.label_scheme!r}; leave {name} out or set the label_scheme it was made with"
            )

    @property
    def hit_label(self) -> HitLabel | None:
        """`hit_label` of the citation percentile; None where that is unknown."""
        return None if self.citation_percentile is None else hit_label(self.citation_percentile)

    def to_row(self) -> dict[str, Any]:
        """Plain columns for a table; `Paper.from_row` is its exact inverse."""
        row = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        row["reference_titles"] = list(self.reference_titles)
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Paper:
        """Inverse of `to_row`. Columns that are not fields of `Paper` are ignored."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in row.items() if name in names})


def _require_text(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a non-empty string, got {value!r}")


def _require_int(name: str, value: object, low: int, high: int | None = None) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} must be an int, got {value!r}")
    if value < low or (high is not None and value > high):
        allowed = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def _require_score(name: str, value: object, low: float) -> None:
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number or None, got {value!r}")
    if not low <= value <= 1.0:
        raise ValueError(f"{name} must be in [{low:g}, 1], got {value!r}")


def _require_choice(name: str, value: object, choices: tuple[str, ...], optional: bool = True) -> None:
    if value is None and optional:
        return
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
