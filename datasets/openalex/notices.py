"""Titles and abstracts that were changed after publication ("RETRACTED: ..."), and notices about other papers.

The patterns are in the common language of `re` and of Arrow (RE2).
"""

from __future__ import annotations

import re

_OPEN = r"^(?:[\s\[\(\{\*【\"“‘']|<[a-zA-Z]{1,6}>)*"
_STATE = r"(?i:retracted|withdrawn|removed|temporary removal)(?i: (?:article|paper|chapter|manuscript|preprint))?"
_END = r"(?:\s*(?:[\]\)\}】:\*]|</[a-zA-Z]{1,6}>)+(?:[\s:\*–—-]|</[a-zA-Z]{1,6}>)*|\s*[–—]+\s*|\s*-+\s)\s*"

MARKED_TITLE = "|".join(
    (
        rf"{_OPEN}{_STATE}{_END}",
        r"^RETRACTED\s+",
        r"[\s\.|:,–—-]+RETRACTED\s*$",
        rf"{_OPEN}(?i:notice of violation of ieee publication principles)(?:[\s\]\):\*–—-]|<[a-zA-Z]{{1,6}} ?/?>)*",
        r"\s*[\[\(]\s*(?i:retracted|withdrawn)\b[^\]\)]*[\]\)]?\s*\.?\s*$",
        r"\s*[\[\(]\s*(?i:retraction (?:notice|of vol)|expression of concern)\b[^\]\)]*[\]\)]?\s*\.?\s*$",
        r"\s+[–—:-]\s*(?i:retracted|withdrawn)(?i: article| paper)?\s*$",
    )
)
"""A title that says that its paper was retracted or withdrawn: nobody knew that on the day it appeared."""

NOTICE_TITLE = "|".join(
    (
        rf"{_OPEN}(?i:errat(?:um|a)|corrigend(?:um|a)|(?:editorial )?expression of concern|notice of retraction|"
        r"retraction (?:note|notice|statement)|(?:statement of|editorial) retraction|withdrawal notice)\b"
        r"(?i: to| for| on| of)?[\.\s\]\):\*–—\"“‘'-]*",
        rf"{_OPEN}(?i:(?:retraction|withdrawal|removal)(?: (?:note|notice))?|(?:author |publisher(?:'s|’s)? )?"
        r"correction|publisher(?:'s|’s)? (?:note|erratum))(?i: to| for| of)?\s*[\]\):]+[\s\"“‘'-]*",
    )
)
"""A title of a notice about another paper: an erratum, a retraction, an expression of concern."""

WITHDRAWN_ABSTRACT = (
    r"(?i)^\W*(?:withdrawn|retracted)\b|\bthis (?:paper|article|manuscript|preprint|submission|work|letter|note) "
    r"(?:has been|is|was|is being) (?:temporarily |hereby )?(?:withdrawn|retracted)\b"
)
"""An abstract that was replaced when its paper was withdrawn."""

_ANY = re.compile(f"{MARKED_TITLE}|{NOTICE_TITLE}")
_STEMS = ("retract", "thdraw", "remov", "errat", "corr", "concern", "note", "eee pub")
"""One of these is in the lower-case form of every title that `_ANY` matches, without letters that `re` takes for others
(dotless i, long s, the sign of Kelvin): a title without any takes a fifth of the time."""


def title_as_published(title: str) -> str:
    """A title without the marks that were put on it afterwards; "" where nothing is left.

    Examples
    --------
    >>> title_as_published("RETRACTED ARTICLE: Cold fusion in a jar"), title_as_published("[Withdrawn] A proof")
    ('Cold fusion in a jar', 'A proof')
    >>> title_as_published("A proof (Retracted article. See vol. 3, p. 4)"), title_as_published("Erratum")
    ('A proof', '')
    >>> title_as_published('Erratum to "A proof"')
    'A proof'
    >>> title_as_published("Retraction of soft tissue"), title_as_published("Corrections to scaling: a review")
    ('Retraction of soft tissue', 'Corrections to scaling: a review')
    """
    title = title.strip()
    lower = title.lower()
    if not any(stem in lower for stem in _STEMS):
        return title
    while (shorter := _ANY.sub("", title, count=1).strip()) != title:
        # The opening quote of 'Erratum to "A proof"' goes with the notice.
        title = shorter.rstrip('"”’') if shorter.count('"') % 2 or shorter.count("“") < shorter.count("”") else shorter
    return title
