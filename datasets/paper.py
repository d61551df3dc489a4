"""`Paper`: one publication, what was known when it appeared, and the labels its later citations give it.

Every field is declared once, with its type, its `Column` and its meaning. The columns of a stored dataset, the checks
of values, the table in a dataset's card, the sample papers and the leakage check of the environments follow from that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from textwrap import fill, indent
from types import NoneType
from typing import Annotated, Any, Literal, Self, get_args, get_origin, get_type_hints

DisruptionLabel = Literal["disruptive", "consolidating", "neutral"]
NoveltyLabel = Literal["novel", "conventional", "balanced"]
HitLabel = Literal["hit", "ordinary"]
LabelScheme = Literal["threshold", "quantile", "uzzi"]

DISRUPTION_LABELS: tuple[str, ...] = get_args(DisruptionLabel)
DISRUPTION_ORDER: tuple[str, ...] = ("consolidating", "neutral", "disruptive")
NOVELTY_LABELS: tuple[str, ...] = get_args(NoveltyLabel)
HIT_LABELS: tuple[str, ...] = get_args(HitLabel)

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

    Takes a citation percentile or an array of them, see `Paper.citation_percentile`. NaN is no hit.

    Examples
    --------
    >>> is_hit(0.95), is_hit(0.94)
    (True, False)
    """
    return citation_percentile >= HIT_CUT


class Role(StrEnum):
    """What a field of `Paper` may be used for."""

    KNOWN = "known at publication"
    """A prompt may show it."""
    OUTCOME = "outcome"
    """Later papers, or later versions of the record, may have shaped it: it never reaches a prompt."""
    PROVENANCE = "provenance"
    """Where the paper and its labels come from. Prompts state what a label means, and nothing else of it."""


@dataclass(frozen=True)
class Column:
    """How a field of `Paper` is stored, and what its values may be."""

    role: Role
    meaning: str
    """For people: the docstring of `Paper` and the cards of datasets quote it."""
    low: float | None = None
    """Lowest number, included; None for no limit, here and in `high`."""
    high: float | None = None
    empty: bool = True
    """Whether a text may be empty."""
    stored: str = ""
    """Arrow type. It, and what follows, comes from the type of the field, except where an int needs 64 bits."""
    allowed: str = ""
    """The values that the field may have, in words."""
    accepts: Callable[[Any], bool] = bool
    """Whether it may have a value."""


KNOWN, OUTCOME, PROVENANCE = Role.KNOWN, Role.OUTCOME, Role.PROVENANCE


@dataclass(frozen=True)
class Paper:
    """One paper. Frozen; every field is checked when it is made.

    Parameters
    ----------
    {parameters}

    Raises
    ------
    ValueError
        Naming the field and the value. A label that contradicts the scores under `label_scheme` is refused too.

    Examples
    --------
    >>> paper = Paper(openalex_id="W1", title="A theory of everything", cd_index=0.4)
    >>> paper.disruption_label
    'disruptive'
    """

    openalex_id: Annotated[str, Column(PROVENANCE, 'Such as "W2100837269"; any text that is not empty.', empty=False)]
    title: Annotated[str, Column(KNOWN, "Never empty.", empty=False)]
    abstract: Annotated[str, Column(KNOWN, 'Plain text, or "".')] = ""
    publication_year: Annotated[int, Column(KNOWN, "Year of publication.", FIRST_YEAR, LAST_YEAR)] = 2000
    cited_by_count: Annotated[
        int, Column(OUTCOME, "Citations up to the day of the source's record.", 0, stored="int64")
    ] = 0
    cd_index: Annotated[float | None, Column(OUTCOME, "CD index; None where undefined.", -1, 1)] = None
    novelty_score: Annotated[
        float | None,
        Column(OUTCOME, "Share of the papers of its year whose venue pairs are less atypical (z10).", 0, 1),
    ] = None
    conventionality_score: Annotated[
        float | None, Column(OUTCOME, "Share of the papers of its year whose median venue pair is rarer.", 0, 1)
    ] = None
    disruption_label: Annotated[
        DisruptionLabel | None, Column(OUTCOME, "Follows from `cd_index` when not given, except under ``quantile``.")
    ] = None
    novelty_label: Annotated[
        NoveltyLabel | None, Column(OUTCOME, "Follows from the two scores when not given, except under ``uzzi``.")
    ] = None
    novelty_withheld: Annotated[
        bool, Column(OUTCOME, "Whether the novelty label changes within the sampling error, so that none is given.")
    ] = False
    primary_field: Annotated[str, Column(KNOWN, "Field of research as the source assigns it.")] = ""
    label_scheme: Annotated[LabelScheme, Column(PROVENANCE, "How the labels are cut.")] = "threshold"
    doi: Annotated[str, Column(PROVENANCE, "DOI without the resolver's address.")] = ""
    publication_date: Annotated[str, Column(KNOWN, "YYYY-MM-DD; 1 January may mean that the day is unknown.")] = ""
    venue: Annotated[str, Column(KNOWN, "Journal, conference or repository of the source's record.")] = ""
    authors_count: Annotated[int, Column(KNOWN, "Authors of the source's record.", 0)] = 0
    reference_count: Annotated[
        int, Column(OUTCOME, "References in the data; they can be those of a later version of the record.", 0)
    ] = 0
    reference_titles: Annotated[
        tuple[str, ...], Column(KNOWN, "Titles of references in the data that certainly appeared before the paper.")
    ] = ()
    cd_window: Annotated[
        int | None, Column(PROVENANCE, "Years after publication whose citations count; None for no end.", 1)
    ] = 5
    cd_threshold: Annotated[float, Column(PROVENANCE, "Cut of the scheme ``threshold``.", 0, 1)] = DISRUPTION_THRESHOLD
    n_i: Annotated[int | None, Column(OUTCOME, "Later papers that cite the paper only.", 0, stored="int64")] = None
    n_j: Annotated[int | None, Column(OUTCOME, "Later papers that cite it and its references.", 0, stored="int64")] = (
        None
    )
    n_k: Annotated[int | None, Column(OUTCOME, "Later papers that cite its references only.", 0, stored="int64")] = None
    citation_percentile: Annotated[
        float | None,
        Column(OUTCOME, "Share of its field and year, itself included, cited less often in `cd_window` years.", 0, 1),
    ] = None
    hit_share: Annotated[
        float | None,
        Column(PROVENANCE, "Share of hits among the training papers of its dataset; prompts state it.", 0, 1),
    ] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference_titles", tuple(self.reference_titles))
        for name, column in COLUMNS.items():
            if not column.accepts(getattr(self, name)):
                raise ValueError(f"{name} must be {column.allowed}, got {getattr(self, name)!r}")
        if self.cd_index is not None and self.label_scheme != "quantile":
            implied = disruption_label(self.cd_index, self.cd_threshold)
            self._follow("disruption_label", implied, f"cd_index={self.cd_index!r}")
        if self.novelty_withheld:
            if self.novelty_label is not None:
                raise ValueError(
                    f"novelty_label={self.novelty_label!r} is given and novelty_withheld=True says that there is none; "
                    "leave one of them out"
                )
        elif self.novelty_score is not None and self.conventionality_score is not None and self.label_scheme != "uzzi":
            because = f"novelty_score={self.novelty_score!r}, conventionality_score={self.conventionality_score!r}"
            self._follow("novelty_label", novelty_label(self.novelty_score, self.conventionality_score), because)

    def _follow(self, name: str, implied: str, because: str) -> None:
        """Set a label that was not given to the one that the scores imply; refuse another one."""
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
        """``hit`` where `is_hit` is true of the citation percentile, else ``ordinary``; None where that is unknown."""
        if self.citation_percentile is None:
            return None
        return "hit" if is_hit(self.citation_percentile) else "ordinary"

    def to_row(self) -> dict[str, Any]:
        """Plain columns for a table; `Paper.from_row` is its exact inverse."""
        row = {name: getattr(self, name) for name in COLUMNS}
        row["reference_titles"] = list(self.reference_titles)
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Self:
        """Inverse of `to_row`. Columns that are not fields of `Paper` are ignored."""
        return cls(**{name: value for name, value in row.items() if name in COLUMNS})


_STORED = {str: "string", bool: "bool", int: "int32", float: "float64", tuple: "list<string>", Literal: "string"}


def _typed(hint: Any, column: Column) -> Column:
    """The `Column` of a field with what follows from the field's type."""
    optional = NoneType in get_args(hint)
    hint = get_args(hint)[0] if optional else hint
    kind = get_origin(hint) or hint
    if kind is Literal:
        choices = get_args(hint)
        allowed, accepts = f"one of {', '.join(choices)}", lambda value: value in choices
    elif kind in (int, float):
        types = (int,) if kind is int else (float, int)
        low = -math.inf if column.low is None else column.low
        high = math.inf if column.high is None else column.high
        span = f"of at least {low:g}" if column.high is None else f"in [{low:g}, {high:g}]"
        allowed = f"{'an int' if kind is int else 'a number'} {span}"

        def accepts(value: Any) -> bool:
            # NaN lies in no range.
            return isinstance(value, types) and not isinstance(value, bool) and low <= value <= high

    elif kind is str and not column.empty:
        allowed, accepts = "a non-empty string", lambda value: isinstance(value, str) and bool(value.strip())
    else:
        names = {str: "a string", bool: "True or False", tuple: "a tuple of strings"}
        allowed, accepts = names[kind], lambda value: isinstance(value, kind)
    column = replace(column, stored=column.stored or _STORED[kind], allowed=allowed, accepts=accepts)
    if optional:
        return replace(column, allowed=f"{allowed} or None", accepts=lambda value: value is None or accepts(value))
    return column


_HINTS = get_type_hints(Paper, include_extras=True)
COLUMNS = {declared.name: _typed(*get_args(_HINTS[declared.name])) for declared in fields(Paper)}
"""Name of every field of `Paper` -> its `Column`, in order."""


def _parameters() -> str:
    """The parameters of `Paper`, for its docstring."""
    lines = []
    for name, column in COLUMNS.items():
        lines += [f"    {name} : {column.allowed}", indent(fill(column.meaning, 102), " " * 8)]
    return "\n".join(lines).lstrip()


Paper.__doc__ = (Paper.__doc__ or "").replace("{parameters}", _parameters())
