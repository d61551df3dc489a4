"""R_reasoning without a judge: quotes that really occur in the title or abstract, and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from .composite import MAX_REASONING

MIN_WORDS, MAX_WORDS = 5, 25
"""Shorter passages occur by chance or are phrases that every abstract has ("in this paper we"). Longer ones than a
sentence point at nothing: whoever quotes the whole abstract has not said what decided."""

FULL_CREDIT = 3
MAX_QUOTES = 6
"""A text with more quotes has not chosen what decides, and earns no credit."""

_OPEN, _CLOSE = b"<quote>", b"</quote>"
_TOKEN = re.compile(r"[^\W_]+|[\W_]")  # a run of letters and digits, or one other character
_BORDER = "\0"
_MOST_PLACES = 20
"""A passage stands in an abstract less often than this; the bound keeps the search linear."""
_MOST_TRIES = 30
"""Passages that `best_quotes` tries. Of different passages that follow one another, nearly every one counts."""

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
    # Bytes: lowering them leaves all but ASCII letters alone, and searching 5 MB of them takes a few milliseconds.
    data = text.encode("utf-8", "surrogatepass")
    lowered = data.lower()
    passages: list[str] = []
    position = 0
    while len(passages) <= MAX_QUOTES:
        opening, closing = lowered.find(_OPEN, position), lowered.find(_CLOSE, position)
        if opening == closing == -1:
            break
        start = opening + len(_OPEN)
        if opening == -1 or closing < start or lowered.find(_OPEN, start, closing) != -1:
            return None
        passages.append(_normal(data[start:closing].decode("utf-8", "surrogatepass")))
        position = closing + len(_CLOSE)
    return passages


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
    counted = _count(passages, _Sources(sources))
    if counted == 0 or counted >= FULL_CREDIT:
        return MAX_REASONING if counted else 0.0
    return MAX_REASONING * min(1.0, counted / len(best_quotes(sources)))


Evidence = Callable[[Sequence[str]], Sequence[float]]
"""From passages to how strongly each speaks, alone, for the right label, in units in which 1 makes full credit."""

_MOST_COMPARED = 200
"""Passages of one length that a quote is compared with; more than abstracts of ordinary length have."""


def evidence_credit(text: str, sources: Sequence[str], evidence: Evidence) -> float:
    """Credit in [0, 0.3] for quotes that say more for the right label than other passages of the same paper.

    Of the first three quotes, each is worth its margin: its evidence minus the mean evidence of all passages with as
    many words in the same sources, which is what a passage drawn at random would have on average. Margins are added up;
    a sum of 1 makes full credit, and one below 0 none. A quote has five words or more (all words of the longest source
    where none has five): single telling words are a list of cues and no reason. The whole abstract has no margin, as
    the only passage of its length. A quote that occurs nowhere, is too short, or overlaps with an earlier one is worth
    0 and changes nothing else. Unpaired tags leave no quotes.

    Parameters
    ----------
    text : str
        The model's text; anything, never raises.
    sources : sequence of str
        Title and abstract, as they were shown.
    evidence : callable
        From N passages to N numbers.

    Examples
    --------
    >>> def new(passages):
    ...     return [float("new" in passage.split()) for passage in passages]
    >>> round(evidence_credit("<quote>Here is a new one</quote>", ["Here is a new one and an old one of it"], new), 3)
    0.129
    """
    searched = _Sources(sources)
    taken: list[_Place] = []
    margin = 0.0
    for passage in map(searched.unmarked, (quoted(text) or [])[:FULL_CREDIT]):
        place = searched.free_place(searched.places(passage), taken)
        if place is not None and len(passage.split()) >= searched.shortest:
            taken.append(place)
            own, *others = evidence([passage, *passages_of(sources, len(passage.split()))])
            margin += own - math.fsum(others) / len(others)
    return MAX_REASONING * min(1.0, max(0.0, margin))


def passages_of(sources: Sequence[str], size: int) -> list[str]:
    """The passages of `size` words in the sources, in order; of more than 200, every second, third, ... one."""
    spans = [(words, start) for words in map(str.split, sources) for start in range(len(words) - size + 1)]
    step = max(1, -(-len(spans) // _MOST_COMPARED))
    return [" ".join(words[start : start + size]) for words, start in spans[::step]]


def _count(passages: Sequence[str], sources: _Sources) -> int:
    """How many passages count; 0 if one of them occurs nowhere."""
    taken: list[_Place] = []
    seen: set[str] = set()
    for passage in map(sources.unmarked, passages):
        places = sources.places(passage)
        if not places:
            return 0
        free = sources.free_place(places, taken)
        if passage not in seen and free is not None and sources.shortest <= len(passage.split()) <= MAX_WORDS:
            taken.append(free)
        seen.add(passage)
    return len(taken)


def best_quotes(sources: Sequence[str]) -> list[str]:
    """Passages that earn full credit: at most three, and at least one unless the sources have no words.

    Examples
    --------
    >>> best_quotes(["Short title", "one two three four five six seven eight nine ten eleven"])
    ['one two three four five', 'six seven eight nine ten']
    """
    searched = _Sources(sources)
    size = searched.shortest
    quotes: list[str] = []
    tried: set[str] = set()
    for text in reversed(searched.texts):
        words = text.split()
        for start in range(0, len(words) - size + 1, size):
            passage = " ".join(words[start : start + size])
            if passage in tried:
                continue
            tried.add(passage)
            if _count([*quotes, passage], searched) == len(quotes) + 1:
                quotes.append(passage)
            if len(quotes) == FULL_CREDIT or len(tried) == _MOST_TRIES:
                return quotes
    return quotes


_Place = tuple[int, int, int]
"""Which source, and from where to where in it."""


class _Sources:
    """Title and abstract, made ready for the search for passages: every step costs no more than their length."""

    def __init__(self, sources: Sequence[str]):
        self.texts = [_normal(source) for source in sources]
        # Fewest words of a quote: five, or all words of the longest source where none has five.
        self.shortest = min(MIN_WORDS, max(len(text.split()) for text in self.texts))
        self._marked = [_mark(text) for text in self.texts]
        self._places: dict[str, list[_Place]] = {}

    def unmarked(self, passage: str) -> str:
        """A quote without the quotation marks around it, unless they stand in a source as well: they are no words."""
        return passage if self.places(passage) else passage.strip(_MARKS + " ")

    def free_place(self, places: Sequence[_Place], taken: Sequence[_Place]) -> _Place | None:
        """The first of `places` that overlaps with none that is taken."""
        return next((place for place in places if not any(_overlap(place, other) for other in taken)), None)

    def places(self, passage: str) -> list[_Place]:
        """Where `passage` stands as whole words; at most 20 places of each source."""
        if passage not in self._places:
            self._places[passage] = self._search(passage)
        return self._places[passage]

    def _search(self, passage: str) -> list[_Place]:
        # No need to take apart a megabyte that cannot occur.
        if not passage or len(passage) > max(map(len, self.texts)):
            return []
        marked = _mark(passage)
        found: list[_Place] = []
        for which, source in enumerate(self._marked):
            start = source.find(marked)
            for _ in range(_MOST_PLACES):
                if start < 0:
                    break
                found.append((which, start + 1, start + len(marked) - 1))
                start = source.find(marked, start + 1)
        return found


def _mark(text: str) -> str:
    """`text` with a border around every word and every other character: a marked passage found in a marked text begins
    and ends where words do."""
    return _BORDER + _BORDER.join(_TOKEN.findall(text)) + _BORDER


def _overlap(one: _Place, other: _Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _normal(text: str) -> str:
    return " ".join(text.split())
