"""R_reasoning without a judge: quotes that really occur in the title or abstract, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from .breakdown import MAX_REASONING

MIN_WORDS, MAX_WORDS = 5, 25
"""Shorter passages occur by chance or are phrases that every abstract has ("in this paper we"). Longer ones than a
sentence point at nothing: whoever quotes the whole abstract has not said what decided."""

FULL_CREDIT = 3
MAX_QUOTES = 6
"""More than this is a shotgun and not evidence: no credit at all."""

_TAG = re.compile(r"</?quote>", re.IGNORECASE)
_MARKS = "\"'“”‘’«»„"  # that a writer may put around a passage, inside the tags


def quoted(text: str) -> list[str] | None:
    """The passages between `<quote>` and `</quote>`, white space normalised; None if tags are unpaired or nested.

    At most seven are returned: one more than may be used.

    Examples
    --------
    >>> quoted("It says <quote>for the\\n first time</quote>.")
    ['for the first time']
    >>> quoted("<quote>one <quote>two</quote>") is None
    True
    """
    tags = list(islice(_TAG.finditer(text), 2 * MAX_QUOTES + 2))
    opening = [tag.group()[1] != "/" for tag in tags]
    if opening != [True, False] * (len(tags) // 2):
        return None
    passages = (text[tags[at].end() : tags[at + 1].start()] for at in range(0, len(tags), 2))
    return [_normal(passage) for passage in passages]


def quote_credit(text: str, sources: Sequence[str]) -> float:
    """Credit for quotes, in [0, 0.3].

    A quote counts if it has 5 to 25 words, occurs word for word in one of the sources (white space aside, whole words)
    at a place that no earlier quote covers, and is not a repetition. Three make full credit, fewer where the sources
    are too short for three. One quote that occurs nowhere, unpaired tags, or more than six quotes: nothing.

    Parameters
    ----------
    text : str
        The model's text; anything, never raises.
    sources : sequence of str
        Title and abstract, as they were shown.

    Examples
    --------
    >>> abstract = "We report the first direct measurement of the effect."
    >>> round(quote_credit("<quote>first direct measurement of the effect</quote>", [abstract]), 3)
    0.3
    >>> quote_credit("<quote>the last indirect measurement of it</quote>", [abstract])
    0.0
    """
    passages = quoted(text)
    if not passages or len(passages) > MAX_QUOTES:
        return 0.0
    counted = count_quotes(passages, sources)
    if counted == 0 or counted >= FULL_CREDIT:
        return MAX_REASONING if counted else 0.0
    return MAX_REASONING * min(1.0, counted / len(best_quotes(sources)))


def count_quotes(passages: Sequence[str], sources: Sequence[str]) -> int:
    """How many passages count; 0 if one of them is made up."""
    texts = [_normal(source) for source in sources]
    shortest = _shortest(texts)
    taken: list[tuple[int, int, int]] = []
    seen: set[str] = set()
    for passage in passages:
        bare = passage.strip(_MARKS + " ")
        places = _all_places(passage, texts) or _all_places(bare, texts)
        if not places:
            return 0
        free = next((place for place in places if not any(_overlap(place, other) for other in taken)), None)
        if passage not in seen and free is not None and shortest <= len(passage.split()) <= MAX_WORDS:
            taken.append(free)
        seen.add(passage)
    return len(taken)


def best_quotes(sources: Sequence[str]) -> list[str]:
    """Passages that earn full credit: at most three, at least one as long as a source has a word in it.

    Examples
    --------
    >>> best_quotes(["Short title", "one two three four five six seven eight nine ten eleven"])
    ['one two three four five', 'six seven eight nine ten']
    """
    texts = [_normal(source) for source in sources]
    size = _shortest(texts)
    found: list[str] = []
    for source in reversed(texts):
        words = source.split()
        for start in range(0, len(words) - size + 1, size):
            passage = " ".join(words[start : start + size])
            if count_quotes([*found, passage], sources) == len(found) + 1:
                found.append(passage)
            if len(found) == FULL_CREDIT:
                return found
    return found


def _shortest(texts: Sequence[str]) -> int:
    """Fewest words of a quote: five, or all words of the longest source where none has five."""
    return min(MIN_WORDS, max(len(text.split()) for text in texts))


def _all_places(passage: str, texts: Sequence[str]) -> list[tuple[int, int, int]]:
    return [(which, *span) for which, text in enumerate(texts) for span in _places(passage, text)]


def _places(passage: str, source: str) -> list[tuple[int, int]]:
    """Where `passage` stands in `source` as whole words. At most 20: abstracts do not repeat a passage more often."""
    places: list[tuple[int, int]] = []
    start = source.find(passage) if passage else -1
    while start >= 0 and len(places) < 20:
        end = start + len(passage)
        inside_word = (start > 0 and source[start - 1].isalnum() and passage[0].isalnum()) or (
            end < len(source) and source[end].isalnum() and passage[-1].isalnum()
        )
        if not inside_word:
            places.append((start, end))
        start = source.find(passage, start + 1)
    return places


def _overlap(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _normal(text: str) -> str:
    return " ".join(text.split())
