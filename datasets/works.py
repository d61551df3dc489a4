"""One OpenAlex work object (a JSON record) -> one row of the works table, or a named reason why it cannot be one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .paper import FIRST_YEAR, LAST_YEAR

WORKS_SCHEMA = pa.schema(
    [
        ("work_id", pa.int64()),
        ("doi", pa.string()),
        ("title", pa.string()),
        ("abstract", pa.string()),
        ("publication_year", pa.int32()),
        ("publication_date", pa.string()),
        ("field", pa.string()),
        ("venue_id", pa.int64()),
        ("venue", pa.string()),
        ("type", pa.string()),
        ("language", pa.string()),
        ("is_paratext", pa.bool_()),
        ("is_retracted", pa.bool_()),
        ("authors_count", pa.int32()),
        ("cited_by_count", pa.int64()),
        ("referenced_works", pa.list_(pa.int64())),
    ]
)
"""The works table: what every source (snapshot, API, synthetic) is brought to before anything is computed."""


class UnusableWork(ValueError):
    """A record that cannot even be a node of the citation graph. `reason` is the name the card counts it under."""

    def __init__(self, reason: str, detail: str):
        super().__init__(detail)
        self.reason = reason


def short_id(value: Any, letter: str = "W") -> int | None:
    """Number of an OpenAlex id: ``"https://openalex.org/W42"`` or ``"W42"`` -> 42; None for anything else.

    Examples
    --------
    >>> short_id("https://openalex.org/W42"), short_id("w42"), short_id("42"), short_id(None)
    (42, 42, None, None)
    """
    if not isinstance(value, str):
        return None
    tail = value.rsplit("/", 1)[-1]
    digits = tail[1:]
    # `isdecimal` alone would let other alphabets' digits through; 18 digits always fit int64.
    if tail[:1].upper() != letter or not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        return None
    return int(digits)


def abstract_from_inverted_index(index: Any) -> str:
    """Text of an OpenAlex `abstract_inverted_index` (word -> positions).

    Gaps are closed; where two words claim one position both are kept, in the index's order. Entries that are not
    lists of non-negative integers are ignored.

    Examples
    --------
    >>> abstract_from_inverted_index({"of": [1], "theory": [0], "everything": [3]})
    'theory of everything'
    >>> abstract_from_inverted_index(None)
    ''
    """
    if not isinstance(index, dict):
        return ""
    placed = [
        (position, order, word)
        for order, (word, positions) in enumerate(index.items())
        if isinstance(positions, list)
        for position in positions
        if isinstance(position, int) and position >= 0
    ]
    placed.sort()
    return " ".join(" ".join(word for _, _, word in placed).split())


def work_row(work: Any) -> dict[str, Any]:
    """Row of the works table for one OpenAlex work object, whatever schema era it comes from.

    Raises
    ------
    UnusableWork
        ``not_an_object``, ``no_id``, ``no_year`` or ``bad_year``: without these there is no node to make.
    """
    if not isinstance(work, dict):
        raise UnusableWork("not_an_object", f"a work must be a JSON object, got {type(work).__name__}")
    work_id = short_id(work.get("id"))
    if work_id is None:
        raise UnusableWork("no_id", f"id {work.get('id')!r} is not an OpenAlex work id such as W2100837269")
    year = work.get("publication_year")
    if not isinstance(year, int) or isinstance(year, bool):
        raise UnusableWork("no_year", f"publication_year {year!r} of W{work_id} is not a whole number")
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise UnusableWork("bad_year", f"publication_year {year} of W{work_id} is outside {FIRST_YEAR}-{LAST_YEAR}")
    source = _object(_object(work, "primary_location"), "source")
    field = _object(_object(work, "primary_topic"), "field")
    references = work.get("referenced_works")
    kept = [short_id(reference) for reference in references] if isinstance(references, list) else []
    venue_id = short_id(source.get("id"), "S")
    return {
        "work_id": work_id,
        "doi": normalised_doi(work.get("doi")),
        "title": _text(work.get("title") or work.get("display_name")),
        "abstract": abstract_from_inverted_index(work.get("abstract_inverted_index")),
        "publication_year": year,
        "publication_date": _text(work.get("publication_date")),
        "field": _text(field.get("display_name")),
        "venue_id": -1 if venue_id is None else venue_id,
        "venue": _text(source.get("display_name")),
        "type": _text(work.get("type")),
        "language": _text(work.get("language")),
        "is_paratext": work.get("is_paratext") is True or work.get("type") == "paratext",
        "is_retracted": work.get("is_retracted") is True,
        "authors_count": len(work["authorships"]) if isinstance(work.get("authorships"), list) else 0,
        "cited_by_count": _count(work.get("cited_by_count")),
        "referenced_works": [reference for reference in kept if reference is not None],
    }


def normalised_doi(value: Any) -> str:
    """Lower-case DOI without its resolver: ``"https://doi.org/10.1/X"`` -> ``"10.1/x"``; "" where there is none."""
    text = _text(value).lower()
    start = text.find("10.")
    return text[start:] if start >= 0 else ""


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
