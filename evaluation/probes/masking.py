"""Papers without what gives them away: names, acronyms and numbers of title and abstract behind placeholders.

A policy that judges a paper by what it says loses little; one that recognises it loses what it remembered.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...datasets.paper import Paper

_WORD = re.compile(r"[^\W_]+(?:[.,](?=\d)\d+)*")
# A capital letter says nothing at the start of a text or sentence, nor after a bracket or quote that opens one.
_SENTENCE_START = re.compile(r"(?:^|[.!?:]\s+)[\"'“‘(\[]*$")
MIN_SHARE = 0.5
"""Share of lower case above which a word that also occurs capitalised is a common word and not a name."""
SHOUTED = 0.6
"""Share of capitals above which the case of a text says nothing, such as titles that are all capitals."""


@dataclass(frozen=True)
class Anonymiser:
    """Masks texts by fixed rules; the same text always gives the same result.

    A word (letters and digits; hyphens separate) becomes, by the first rule that holds,

    - ``[NUMBER]`` if it consists of digits, with points or commas inside them;
    - ``[ACRONYM-i]`` if it holds a digit, or two or more capitals (``QCD``, ``AdS``, ``mRNA``, ``Cas9``, ``II``);
    - ``[NAME-i]`` if it begins with a capital, has two letters or more and is not a common word.

    Common words are those that a collection of texts writes in lower case, too. Equal words of a text get the same
    number i, in order of appearance. In a text of capitals only common words are told by themselves. Single letters
    (symbols such as N and x) and everything in lower case stay.

    Parameters
    ----------
    common : frozenset of str
        Common words, in lower case.

    Examples
    --------
    >>> Anonymiser(frozenset({"black", "we"})).mask("Black holes after Hawking: 2 new bounds in QCD, after Hawking")
    'Black holes after [NAME-1]: [NUMBER] new bounds in [ACRONYM-1], after [NAME-1]'
    """

    common: frozenset[str]

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Anonymiser:
        """Learn the common words from abstracts: words that are in lower case at least half of the time.

        Words at the start of a sentence are not counted. Use texts of the training split.
        """
        lower: Counter[str] = Counter()
        capital: Counter[str] = Counter()
        for text in texts:
            if _shouted(text):
                continue
            for match in _WORD.finditer(text):
                word = match.group()
                if word.islower():
                    lower[word] += 1
                elif word[0].isupper() and not _SENTENCE_START.search(text, 0, match.start()):
                    capital[word.lower()] += 1
        known = (word for word, n in lower.items() if n >= MIN_SHARE * (n + capital[word]))
        return cls(frozenset(known))

    def mask(self, text: str) -> str:
        """`text` with placeholders."""
        numbers: dict[str, dict[str, int]] = {"ACRONYM": {}, "NAME": {}}
        shouted = _shouted(text)

        def placeholder(match: re.Match[str]) -> str:
            word = match.group()
            kind = self._kind(word, shouted)
            if kind is None:
                return word
            if kind == "NUMBER":
                return "[NUMBER]"
            seen = numbers[kind]
            return f"[{kind}-{seen.setdefault(word, len(seen) + 1)}]"

        return _WORD.sub(placeholder, text)

    def _kind(self, word: str, shouted: bool) -> str | None:
        if word.isalpha() and word.islower():
            return None
        if not any(character.isalpha() for character in word):
            return "NUMBER"
        if any(character.isdigit() for character in word):
            return "ACRONYM"
        if len(word) < 2:
            return None
        capitals = sum(character.isupper() for character in word)
        if shouted and capitals == len(word):
            return None if word.lower() in self.common else "NAME"
        if capitals >= 2:
            return "ACRONYM"
        if word[0].isupper() and word.lower() not in self.common:
            return "NAME"
        # A single capital inside a word, such as "pH".
        return None if word[0].isupper() else "ACRONYM"

    def paper(self, paper: Paper) -> Paper:
        """A paper with masked title, abstract and reference titles; everything else, labels included, as it is."""
        return dataclasses.replace(
            paper,
            title=self.mask(paper.title),
            abstract=self.mask(paper.abstract),
            reference_titles=tuple(self.mask(title) for title in paper.reference_titles),
        )


def _shouted(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return sum(character.isupper() for character in letters) > SHOUTED * len(letters)
