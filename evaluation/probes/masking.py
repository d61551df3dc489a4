"""Papers with placeholders for the names, acronyms and numbers of title and abstract.

A policy that judges a paper by its content loses little accuracy on them; one that recognises the paper loses more.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ...datasets.paper import Paper

_WORD = re.compile(r"[^\W_]+(?:[.,](?=\d)\d+)*")
_OPENING = "\"'“‘(["
_SENTENCE_END = (".", "!", "?", ":")
MIN_SHARE = 0.5
"""Share of lower case above which a word that also occurs capitalised is a common word and not a name."""
MAX_CAPITALS = 0.6
"""Share of capitals above which case carries no information, as in titles that are all capitals."""


@dataclass(frozen=True)
class Anonymiser:
    """Masks texts by fixed rules; the same text always gives the same result.

    A word (letters and digits; hyphens separate) becomes, by the first rule that holds,

    - ``[NUMBER]`` if it consists of digits, with points or commas inside them;
    - ``[ACRONYM-i]`` if it holds a digit, or two or more capitals (``QCD``, ``AdS``, ``mRNA``, ``Cas9``, ``II``);
    - ``[NAME-i]`` if it begins with a capital, has two letters or more and is not a common word.

    Common words are those that a collection of texts writes in lower case, too; `common` has them in lower case. Equal
    words of a text get the same number i, in order of appearance. In a text of capitals only common words are
    recognised. Single letters (symbols such as N and x) and everything in lower case stay.

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
            if _in_capitals(text):
                continue
            for match in _WORD.finditer(text):
                word = match.group()
                if word.islower():
                    lower[word] += 1
                elif word[0].isupper() and not _starts_sentence(text, match.start()):
                    capital[word.lower()] += 1
        return cls(frozenset(word for word, n in lower.items() if n >= MIN_SHARE * (n + capital[word])))

    def mask(self, text: str) -> str:
        numbers: dict[str, dict[str, int]] = {"ACRONYM": {}, "NAME": {}}
        in_capitals = _in_capitals(text)

        def placeholder(match: re.Match[str]) -> str:
            word = match.group()
            kind = self._kind(word, in_capitals)
            if kind is None:
                return word
            if kind == "NUMBER":
                return "[NUMBER]"
            seen = numbers[kind]
            return f"[{kind}-{seen.setdefault(word, len(seen) + 1)}]"

        return _WORD.sub(placeholder, text)

    def _kind(self, word: str, in_capitals: bool) -> str | None:
        if word.isalpha() and word.islower():
            return None
        if not any(character.isalpha() for character in word):
            return "NUMBER"
        if any(character.isdigit() for character in word):
            return "ACRONYM"
        if len(word) < 2:
            return None
        capitals = sum(character.isupper() for character in word)
        # The last is a single capital inside a word, such as "pH".
        if not (in_capitals and capitals == len(word)) and (capitals >= 2 or not word[0].isupper()):
            return "ACRONYM"
        return None if word.lower() in self.common else "NAME"

    def paper(self, paper: Paper) -> Paper:
        """A paper with masked title, abstract and reference titles; everything else, labels included, as it is."""
        return dataclasses.replace(
            paper,
            title=self.mask(paper.title),
            abstract=self.mask(paper.abstract),
            reference_titles=tuple(self.mask(title) for title in paper.reference_titles),
        )


def _in_capitals(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return sum(character.isupper() for character in letters) > MAX_CAPITALS * len(letters)


def _starts_sentence(text: str, position: int) -> bool:
    """Whether a word at this position starts the text or a sentence, possibly behind opening quotes or brackets.

    It looks back to the word before at most, so that reading a whole text takes time linear in its length.
    """
    while position and text[position - 1] in _OPENING:
        position -= 1
    end = position
    while end and text[end - 1].isspace():
        end -= 1
    return not end or (end < position and text[end - 1] in _SENTENCE_END)
