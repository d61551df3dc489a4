"""One OpenAlex work object (a JSON record) -> one row of the works table, or a named reason why it cannot be one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..paper import FIRST_YEAR, LAST_YEAR

# In characters. What is longer is no abstract but a long word at thousands of positions: a few hundred kilobytes of
# such JSON would fill gigabytes of memory.
LONGEST_ABSTRACT = 1 << 22

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

NOTHING = frozenset({"null", "none", "nan", "n/a", "<na>", "nat", "undefined", "{}", "[]"})
"""Texts, in lower case, that exports write where there is no value: as a whole title or abstract they are none."""

LONGEST_NOTHING = max(map(len, NOTHING))

DAMAGE = frozenset({"damaged_file", "not_json", "not_an_object", "no_id"})
"""Reasons that speak of a damaged source. They stop a build unless the user asks to skip them; other reasons are rules
that real data is expected to meet, and are counted."""


class UnusableWork(ValueError):
    """A record that cannot be a node of the citation graph. `reason` is the name the card counts it under."""

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
    lists of non-negative integers are ignored. An index whose text would be longer than `LONGEST_ABSTRACT` gives none.

    Examples
    --------
    >>> abstract_from_inverted_index({"of": [1], "theory": [0], "everything": [3]})
    'theory of everything'
    >>> abstract_from_inverted_index(None)
    ''
    """
    if not isinstance(index, dict):
        return ""
    lists = [(word, positions) for word, positions in index.items() if isinstance(positions, list)]
    if sum((len(word) + 1) * len(positions) for word, positions in lists) > LONGEST_ABSTRACT:
        return ""
    placed = [
        (position, order, word)
        for order, (word, positions) in enumerate(lists)
        for position in positions
        if isinstance(position, int) and not isinstance(position, bool) and position >= 0
    ]
    return text(" ".join(word for _, _, word in sorted(placed)))


def reference_numbers(references: Any) -> list[int]:
    """Numbers of the works in a `referenced_works` list; whatever in it is not an OpenAlex work id is left out."""
    if not isinstance(references, list):
        return []
    return [number for reference in references if (number := short_id(reference)) is not None]


def checked_node(identifier: Any, year: Any, updated: Any, is_xpac: Any) -> tuple[int, int]:
    """Number and year of a work that can be a node of the citation graph.

    Raises
    ------
    UnusableWork
        ``no_id``, ``xpac``, ``no_year``, ``bad_year`` (outside 1800-2100) or ``future_year`` (more than a year after
        the record was last updated: OpenAlex has works of 2050).
    """
    work_id = short_id(identifier)
    if work_id is None:
        raise UnusableWork("no_id", f"id {identifier!r} is not an OpenAlex work id such as W2100837269")
    if is_xpac is True:
        raise UnusableWork("xpac", f"W{work_id} is of the expansion pack, which OpenAlex itself leaves out by default")
    whole = _whole(year)
    if whole is None:
        raise UnusableWork("no_year", f"publication_year {year!r} of W{work_id} is not a whole number")
    if not FIRST_YEAR <= whole <= LAST_YEAR:
        raise UnusableWork("bad_year", f"publication_year {whole} of W{work_id} is outside {FIRST_YEAR}-{LAST_YEAR}")
    if isinstance(updated, str) and updated[:4].isdecimal() and whole > int(updated[:4]) + 1:
        raise UnusableWork("future_year", f"W{work_id} of {whole} was last updated in {updated[:4]}")
    return work_id, whole


def work_row(work: Any) -> dict[str, Any]:
    """Row of the works table for one OpenAlex work object, whatever schema era it comes from.

    Raises
    ------
    UnusableWork
        ``not_an_object`` or what `checked_node` raises: there is no node to make.
    """
    if not isinstance(work, dict):
        raise UnusableWork("not_an_object", f"a work must be a JSON object, got {type(work).__name__}")
    work_id, year = checked_node(*map(work.get, ("id", "publication_year", "updated_date", "is_xpac")))
    source = _object(_object(work, "primary_location"), "source")
    field = _object(_object(work, "primary_topic"), "field")
    venue_id = short_id(source.get("id"), "S")
    return {
        "work_id": work_id,
        "doi": normalised_doi(work.get("doi")),
        "title": text(work.get("title")) or text(work.get("display_name")),
        "abstract": abstract_from_inverted_index(work.get("abstract_inverted_index")),
        "publication_year": year,
        "publication_date": text(work.get("publication_date")),
        "field": text(field.get("display_name")),
        "venue_id": -1 if venue_id is None else venue_id,
        "venue": text(source.get("display_name")),
        "type": text(work.get("type")),
        "language": text(work.get("language")),
        "is_paratext": work.get("is_paratext") is True or work.get("type") == "paratext",
        "is_retracted": work.get("is_retracted") is True,
        "authors_count": len(work["authorships"]) if isinstance(work.get("authorships"), list) else 0,
        "cited_by_count": count(work.get("cited_by_count")),
        "referenced_works": reference_numbers(work.get("referenced_works")),
    }


def normalised_doi(value: Any) -> str:
    """Lower-case DOI without its resolver: ``"https://doi.org/10.1/X"`` -> ``"10.1/x"``; "" where there is none."""
    lower = text(value).lower()
    start = lower.find("10.")
    return lower[start:] if start >= 0 else ""


def text(value: Any) -> str:
    """A string with single spaces; "" for anything that is not one, or that says that there is nothing.

    Examples
    --------
    >>> text(" On  nulls "), text("null"), text("NaN"), text(None)
    ('On nulls', '', '', '')
    """
    plain = " ".join(value.split()) if isinstance(value, str) else ""
    return "" if len(plain) <= LONGEST_NOTHING and plain.lower() in NOTHING else plain


def count(value: Any) -> int:
    """A non-negative whole number; 0 for anything else, or beyond what a column of 64 bits holds."""
    whole = _whole(value)
    return whole if whole is not None and 0 <= whole < 2**62 else 0


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Some exports write years as 1997.0.
    return int(value) if value == value and abs(value) < 2**62 and int(value) == value else None


def _object(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}
