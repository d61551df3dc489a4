"""What belongs to the papers of SciSciNet in other tables, joined by `paperid`: titles and abstracts, and fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.compute import call_function

from ..errors import BadInput
from ..openalex.record import text
from ..positions import positions_of
from .tables import FIELD_NAMES, Rows, numbers, paper_numbers

Batches = Iterator[tuple[np.ndarray, pa.RecordBatch]]
"""Batches of some columns, each with the rows of the papers, int64 (M,), that its rows belong to."""


class Texts:
    """Columns of the papers' own table or, where titles and abstracts are apart, of a table in any order.

    There, only rows of papers count, and of several rows of one paper the first.
    """

    def __init__(self, source: Rows, papers: np.ndarray | None = None):
        self.source, self._papers = source, papers
        self._order = None if papers is None else np.argsort(papers, kind="stable")

    def batches(self, columns: Sequence[str], title: str = "", progress: bool = False) -> Batches:
        """`columns` of the rows that belong to a paper."""
        if self._papers is None:
            yield from numbered(self.source.batches(columns, title, progress))
            return
        seen = np.zeros(self._papers.size, bool)
        for batch in self.source.batches(["paperid", *columns], title, progress):
            rows = positions_of(paper_numbers(batch["paperid"]), self._papers, self._order)
            first = np.zeros(rows.size, bool)
            first[np.unique(rows, return_index=True)[1]] = True
            new = np.flatnonzero(first & (rows >= 0) & ~seen[rows])
            seen[rows[new]] = True
            yield rows[new], batch.take(pa.array(new)).select(list(columns))


def numbered(batches: Iterator[pa.RecordBatch]) -> Batches:
    """Batches of the papers' own table."""
    first = 0
    for batch in batches:
        yield np.arange(first, first + len(batch)), batch
        first += len(batch)


def values_at(batches: Batches, wanted: np.ndarray, column: str, function: Callable[[Any], str]) -> list[str]:
    """`function` of a column at the ascending rows `wanted` of the papers; "" where there is no value."""
    values = [""] * wanted.size
    for rows, batch in batches:
        places = np.searchsorted(wanted, rows)
        there = np.flatnonzero(np.append(wanted, -1)[places] == rows)
        given = batch[column].take(pa.array(there)).to_pylist()
        for place, value in zip(places[there].tolist(), given, strict=True):
            values[place] = function(value)
    return values


def fields_of(papers: np.ndarray, links: Path | None, names: Path | None, level: int) -> list[str]:
    """Field of each paper at a level: the one with the highest score, of equals the first by name; "" for none.

    `links` has a row for each paper and field: ``paperid`` and either ``display_name`` and ``level`` of the field or,
    with these in the table `names`, ``fieldid``; where it has no ``score_openalex``, all scores are equal. Raises
    `BadInput` if a table lacks a column, or no field has the level.
    """
    if links is None:
        return [""] * papers.size
    key, kinds = "display_name", None
    if "display_name" not in Rows(links, ("paperid",)).names:
        if names is None:
            raise BadInput(
                f"{links} has no column display_name; SciSciNet-v2 names the fields in {FIELD_NAMES}: give that with "
                "--field-names"
            )
        key, kinds = "fieldid", _names_of_level(names, level)
    source = Rows(links, ("paperid", key, *(("level",) if kinds is None else ())))
    order = np.argsort(papers, kind="stable")
    best, best_score = np.full(papers.size, -1, np.int64), np.full(papers.size, -np.inf)
    found: list[str] = []
    for batch in source.batches(("paperid", key, "level", "score_openalex")):
        if kinds is None:
            batch = batch.filter(pa.array(numbers(batch["level"], -1) == level))
        values = batch[key].dictionary_encode()
        given = [
            (text(value) if kinds is None else kinds.get(_key(value), "")) for value in values.dictionary.to_pylist()
        ]
        found += sorted(set(given) - {"", *found})
        codes = np.array([found.index(name) if name else -1 for name in given] + [-1])
        field = codes[call_function("coalesce", [values.indices, pa.scalar(-1, values.indices.type)]).to_numpy()]
        place = positions_of(paper_numbers(batch["paperid"]), papers, order)
        linked = (place >= 0) & (field >= 0)
        rank = np.argsort(np.argsort(np.array(found))) if found else np.empty(0, np.int64)
        _keep_best(place[linked], field[linked], numbers(batch["score_openalex"], 0.0)[linked], rank, best, best_score)
    if not found:
        raise BadInput(f"{links} has no field of level {level}; choose another --field-level")
    return [found[field] if field >= 0 else "" for field in best.tolist()]


def _keep_best(
    papers: np.ndarray, field: np.ndarray, score: np.ndarray, rank: np.ndarray, best: np.ndarray, best_score: np.ndarray
) -> None:
    """Enter the best field of each paper among some links, where it beats the best so far; `rank` is that of names."""
    order = np.lexsort((rank[field], -score, papers))
    first = order[np.unique(papers[order], return_index=True)[1]]
    papers, field, score = papers[first], field[first], score[first]
    has_earlier_name = rank[field] < np.where(best[papers] < 0, rank.size, rank[best[papers]])
    better = (score > best_score[papers]) | ((score == best_score[papers]) & has_earlier_name)
    best[papers[better]], best_score[papers[better]] = field[better], score[better]


def _names_of_level(names: Path, level: int) -> dict[str, str]:
    """Name of every field of a level, by its id."""
    fields = {}
    for batch in Rows(names, ("fieldid", "display_name", "level")).batches(("fieldid", "display_name", "level")):
        batch = batch.filter(pa.array(numbers(batch["level"], -1) == level))
        given = zip(batch["fieldid"].to_pylist(), batch["display_name"].to_pylist(), strict=True)
        fields |= {_key(field): text(name) for field, name in given}
    return fields


def _key(field: Any) -> str:
    """Id of a field without an address before it: ``"https://openalex.org/C41008148"`` -> ``"C41008148"``."""
    return str(field).rsplit("/", 1)[-1]
