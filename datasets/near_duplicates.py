"""Papers that appear twice: the same DOI, or near-identical titles.

Two titles are near-identical when, as sequences of lower-case words without accents, TeX commands and punctuation,

- they are equal once spaces are left out as well, or
- the longer has at least six words and they differ by one word: a word left out that carries no meaning of its own
  ("the", "of"), or a word replaced by one with the same first letter, at most two letters apart and at least four
  letters long (a plural, a variant spelling, a misprint), unless either word holds a digit or is a Roman numeral.

So "Part I" and "Part II", or "in four dimensions" and "in five dimensions", are different papers. A copy of a copy
belongs to the same group.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

MIN_WORDS = 6
MIN_LETTERS = 4
MAX_LETTERS_APART = 2
# Of a group of candidates, only the first so many are compared with all others: larger groups come from titles such as
# "Book review".
CROWD = 64
_EMPTY_WORDS = frozenset("a an and as at by for from in into of on or over the to under via with".split())
_ROMAN = re.compile(r"[ivxlcdm]+")
_TEX = re.compile(r"\\[A-Za-z]+")


def title_words(title: str) -> tuple[str, ...]:
    """Words of a title: letters and digits only, no case, no accents, no TeX commands.

    Examples
    --------
    >>> title_words("D-branes in $\\\\mathcal{N}=2$  Théories")
    ('d', 'branes', 'in', 'n', '2', 'theories')
    """
    plain = unicodedata.normalize("NFKD", _TEX.sub(" ", title)).casefold()
    return tuple("".join(c if c.isalnum() else " " for c in plain if not unicodedata.combining(c)).split())


def near_identical(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two titles, as `title_words`, are near-identical by the rule of this module.

    Examples
    --------
    >>> words = title_words("Entropy of black holes in four dimensions")
    >>> near_identical(words, title_words("The entropy of black holes in four dimensions"))
    True
    >>> near_identical(words, title_words("Entropy of black holes in five dimensions"))
    False
    """
    if "".join(first) == "".join(second):
        return True
    if max(len(first), len(second)) < MIN_WORDS or abs(len(first) - len(second)) > 1:
        return False
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start]:
        start += 1
    if len(first) == len(second):
        return first[start + 1 :] == second[start + 1 :] and _same_word(first[start], second[start])
    longer, shorter = (first, second) if len(first) > len(second) else (second, first)
    return longer[start + 1 :] == shorter[start:] and longer[start] in _EMPTY_WORDS


def later_copies(dois: Sequence[str], titles: Sequence[str]) -> np.ndarray:
    """Mark the papers that repeat an earlier one by DOI or near-identical title: bool (M,).

    `dois` and `titles` are M strings each, papers in order of publication. The first of each group of copies is False.

    Examples
    --------
    >>> later_copies(["10.1/a", "", "10.1/a"], ["One", "Two", "Three"]).tolist()
    [False, False, True]
    """
    pairs = set(_same_doi(dois))
    for papers in _candidates(titles):
        words = [title_words(titles[paper]) for paper in papers]
        for i, paper in enumerate(papers):
            for j in range(min(i, CROWD)):
                if (papers[j], paper) not in pairs and near_identical(words[i], words[j]):
                    pairs.add((papers[j], paper))
    size = len(titles)
    first, second = np.array(list(pairs), np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(first.size, bool), (first, second)), shape=(size, size))
    _, group = connected_components(graph, directed=False)
    repeats = np.ones(size, bool)
    repeats[np.unique(group, return_index=True)[1]] = False
    return repeats


def _same_doi(dois: Sequence[str]) -> Iterator[tuple[int, int]]:
    earliest: dict[str, int] = {}
    for paper, doi in enumerate(dois):
        if doi and earliest.setdefault(doi, paper) != paper:
            yield earliest[doi], paper


def _candidates(titles: Sequence[str]) -> Iterator[list[int]]:
    """Groups of papers, ascending, that may have near-identical titles: same words, or one word left out the same."""
    # Arrays, not a dict of lists: for half a million titles that is 100 MB instead of 1.5 GB.
    keys, owners = array("q"), array("i")
    for paper, title in enumerate(titles):
        for key in _keys(title_words(title)):
            keys.append(key)
            owners.append(paper)
    key, owner = np.frombuffer(keys, np.int64), np.frombuffer(owners, np.int32)
    order = np.argsort(key, kind="stable")
    bounds = np.flatnonzero(np.r_[True, key[order][1:] != key[order][:-1]]) if key.size else np.empty(0, np.int64)
    sizes = np.diff(np.r_[bounds, key.size])
    for start, size in zip(bounds[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        papers = np.unique(owner[order[start : start + size]]).tolist()
        if len(papers) > 1:
            yield papers


def _keys(words: tuple[str, ...]) -> Iterator[int]:
    if not words:
        return
    yield hash("".join(words))
    if len(words) >= MIN_WORDS - 1:
        yield hash(words)
    if len(words) >= MIN_WORDS:
        for left_out in range(len(words)):
            yield hash(words[:left_out] + words[left_out + 1 :])


def _same_word(first: str, second: str) -> bool:
    if first[0] != second[0] or min(len(first), len(second)) < MIN_LETTERS:
        return False
    if any(_ROMAN.fullmatch(word) or any(map(str.isdigit, word)) for word in (first, second)):
        return False
    return _letters_apart(first, second) <= MAX_LETTERS_APART


def _letters_apart(first: str, second: str) -> int:
    """Levenshtein distance."""
    previous = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        current = [row]
        for column, other in enumerate(second, 1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (letter != other)))
        previous = current
    return previous[-1]
