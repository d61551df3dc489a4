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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

MIN_WORDS = 6
MIN_LETTERS = 4
MAX_LETTERS_APART = 2
# Of a group of candidates, only the first so many are compared with all others: larger groups come from titles such as
# "Book review".
CROWD = 64
AT_A_TIME = 4096
KEYS_A_FILE = 4_000_000
_OWNED = np.dtype([("key", np.int64), ("owner", np.int32)])
_T = TypeVar("_T")
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

    def described(papers: np.ndarray) -> tuple[list[str], list[str]]:
        places: list[int] = papers.tolist()
        return [dois[place] for place in places], [titles[place] for place in places]

    return copies_among(len(titles), described)


def copies_among(
    size: int, described: Callable[[np.ndarray], tuple[list[str], list[str]]], folder: Path | None = None
) -> np.ndarray:
    """`later_copies` of `size` papers whose texts are asked for a few thousand at a time: bool (size,).

    ``described(papers)`` gives DOIs and titles of the papers at some places, int64 ascending. `folder` is where some
    200 bytes a paper are written meanwhile; None: the system's temporary folder. About 50 bytes a paper are in memory.
    """
    first, second = array("i"), array("i")

    def note(one: int, other: int) -> None:
        first.append(one)
        second.append(other)

    with TemporaryDirectory(dir=folder) as scratch:
        same_doi, alike = _Keys(Path(scratch, "dois"), size), _Keys(Path(scratch, "titles"), 12 * size)
        for start in range(0, size, AT_A_TIME):
            papers = np.arange(start, min(start + AT_A_TIME, size))
            for paper, doi, title in zip(papers.tolist(), *described(papers), strict=True):
                if doi:
                    same_doi.add(paper, (hash(doi),))
                alike.add(paper, _keys(title_words(title)))
        for groups in _some(same_doi.groups()):
            doi_of = _by_paper(groups, lambda papers: described(papers)[0])
            for group in groups:
                earliest: dict[str, int] = {}
                for paper in group:
                    if earliest.setdefault(doi_of[paper], paper) != paper:
                        note(earliest[doi_of[paper]], paper)
        for groups in _some(alike.groups()):
            words = _by_paper(groups, lambda papers: [title_words(title) for title in described(papers)[1]])
            for group in groups:
                for place, paper in enumerate(group):
                    for earlier in group[: min(place, CROWD)]:
                        if near_identical(words[paper], words[earlier]):
                            note(earlier, paper)
    pairs = np.frombuffer(first, np.int32), np.frombuffer(second, np.int32)
    graph = coo_array((np.ones(len(first), bool), pairs), shape=(size, size))
    _, group = connected_components(graph, directed=False)
    repeats = np.ones(size, bool)
    repeats[np.unique(group, return_index=True)[1]] = False
    return repeats


class _Keys:
    """Keys of papers, on disk in files that each hold every owner of a part of the keys; about `expected` in all."""

    def __init__(self, folder: Path, expected: int):
        folder.mkdir()
        parts = 1 + expected // KEYS_A_FILE
        self._files = [folder / f"{part}" for part in range(parts)]
        self._keys, self._owners = array("q"), array("i")

    def add(self, paper: int, keys: Iterable[int]) -> None:
        for key in keys:
            self._keys.append(key)
            self._owners.append(paper)
        if len(self._keys) >= KEYS_A_FILE:
            self._write()

    def _write(self) -> None:
        """Append what was added since the last call to the files."""
        rows = np.empty(len(self._keys), _OWNED)
        rows["key"], rows["owner"] = self._keys, self._owners
        part = rows["key"] % len(self._files)
        for number, file in enumerate(self._files):
            with file.open("ab") as handle:
                rows[part == number].tofile(handle)
        self._keys, self._owners = array("q"), array("i")

    def groups(self) -> Iterator[list[int]]:
        """The papers that have a key together, ascending, two or more."""
        self._write()
        for file in self._files:
            rows = np.fromfile(file, _OWNED)
            order = np.argsort(rows["key"], kind="stable")
            keys, owners = rows["key"][order], rows["owner"][order]
            bounds = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if keys.size else np.empty(0, np.int64)
            sizes = np.diff(np.append(bounds, keys.size))
            for start, size in zip(bounds[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
                papers = np.unique(owners[start : start + size]).tolist()
                if len(papers) > 1:
                    yield papers


def _some(groups: Iterator[list[int]]) -> Iterator[list[list[int]]]:
    """The groups in lists that hold about `AT_A_TIME` papers."""
    held: list[list[int]] = []
    room = AT_A_TIME
    for group in groups:
        held.append(group)
        room -= len(group)
        if room <= 0:
            yield held
            held, room = [], AT_A_TIME
    if held:
        yield held


def _by_paper(groups: list[list[int]], texts: Callable[[np.ndarray], list[_T]]) -> dict[int, _T]:
    papers = np.unique(np.concatenate([np.array(group) for group in groups]))
    return dict(zip(papers.tolist(), texts(papers), strict=True))


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
