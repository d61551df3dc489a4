"""Focal papers from the OpenAlex API with the whole neighbourhood that their CD index is made of.

Three steps: the focal papers; everything they cite; everything that cites them or what they cite, in the years that
count. Without the last, n_k is cut short and every CD index comes out too large. Works that cite a work by an id that
was merged into it are found if a focal paper cites it by that id too; the API tells nobody of others.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa

from ...errors import BadInput
from ...graph.citation_graph import CitationGraph
from ..merged_ids import DELETED_WORK, RetiredIds
from ..record import WORKS_SCHEMA, UnusableWork, normalised_doi, short_id, work_row
from ..works_table import WorksTable, citation_graph
from .client import MAX_IDS, Connection, StoredPages, pages, single, whole_answer
from .compat import Works
from .response_cache import PageStore
from .wanted import Wanted

LONGEST_FILTER = 3000
"""Bytes for the values of a filter. The API takes addresses of 4,094 bytes; the rest is for the other parameters."""
MOST_AUTHORS = 100
"""Authors of a work that a list gives; only the work by itself has all of them."""
NARROW = ["id", "publication_year", "referenced_works", "updated_date", "is_xpac"]
REFERENCE = [*NARROW, "doi", "title", "publication_date", "language", "type", "primary_location", "cited_by_count"]
FOCAL = [
    *REFERENCE, "is_retracted", "is_paratext", "primary_topic", "authorships", "is_authors_truncated",
    "abstract_inverted_index",
]  # fmt: skip
AGAIN = "run the same build command again to fetch what is missing"
# Shows progress: (step, requests made since the last call, requests expected).
Report = Callable[[str, int, int], object]


@dataclass
class Collected:
    """What was collected."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Work id -> row of the works table, the fullest that was seen."""
    focal: set[int] = field(default_factory=set)
    cut_short: set[int] = field(default_factory=set)
    """Those of the focal papers whose neighbourhood is not whole."""
    unusable: dict[Any, str] = field(default_factory=dict)
    """Id of a record that is not in `rows` -> reason."""
    merged: dict[int, int] = field(default_factory=dict)
    """Id that was asked for -> id of the work that it was merged into."""
    facts: dict[str, Any] = field(default_factory=dict)
    """How much of each step was there, for the card."""

    @property
    def dropped(self) -> Counter[str]:
        """Records that are not in `rows`, by reason."""
        return Counter(self.unusable.values())

    def works(self) -> WorksTable:
        """The works table, by ascending id."""
        rows = [self.rows[number] for number in sorted(self.rows)]
        table = WorksTable.of_table(pa.Table.from_pylist(rows, WORKS_SCHEMA))
        return table.without_retired(RetiredIds.of(self.merged), Counter())

    def cited(self, row: dict[str, Any]) -> list[int]:
        """References of a work that are in `rows`, under the ids they have now."""
        current = (self.merged.get(number, number) for number in row["referenced_works"])
        return [number for number in dict.fromkeys(current) if number in self.rows]

    def row(self, work: Any) -> dict[str, Any] | None:
        """Row of a work that the API gave; None, with a note in `unusable`, for one that cannot have a row."""
        identifier = work.get("id") if isinstance(work, dict) else None
        try:
            if short_id(identifier) == DELETED_WORK:
                raise UnusableWork("deleted_id", f"W{DELETED_WORK} stands for all works that OpenAlex has deleted")
            return work_row(work)
        except UnusableWork as error:
            self.unusable[identifier] = error.reason
            return None

    def ids_of(self, works: Iterable[int]) -> list[int]:
        """Works, each followed by the ids that were merged into it: works that cite it may do so by any of them."""
        old: dict[int, list[int]] = {}
        for number, now in sorted(self.merged.items()):
            old.setdefault(now, []).append(number)
        return [number for work in works for number in (work, *old.get(work, ()))]

    def note_merge(self, asked: int | None, work: dict[str, Any]) -> None:
        """Remember it if the work that came for the id `asked` has another id."""
        now = short_id(work["id"])
        if asked is not None and now is not None and now != asked:
            self.merged[asked] = now


def collect(
    wanted: Wanted,
    source: Connection,
    report: Report = lambda *_: None,
    report_plan: Callable[[Collected], object] = lambda _: None,
) -> Collected:
    """Fetch focal papers, what they cite, and what cites either.

    `report` is called after every batch with (step, 1, batches expected), `report_plan` before the citing works are
    fetched, with what was collected so far. Raises `Stopped` and `Refused` (see `Connection.json`; a second call
    continues from there), and `BadInput` if there is no focal paper.
    """
    result = Collected()
    _focal(wanted, source, result, report)
    if not result.focal:
        sought = f"the words {wanted.query!r}" if wanted.query is not None else f"the {len(wanted.seeds):,} seeds"
        why = dict(result.dropped) or "the answer is empty"
        raise BadInput(f"OpenAlex has no usable work for {sought} in the years asked for: {why}; look for others")
    _references(source, result, report)
    report_plan(result)
    _citing(wanted, source, result, report)
    whole = len(result.focal) - len(result.cut_short)
    result.facts["focal"] |= {"whole": whole, "share_whole": floored(whole / len(result.focal))}
    return result


def collection_differences(folder: Path, source: dict[str, Any], graph: CitationGraph, papers: list[dict]) -> list[str]:
    """Sentences about where a dataset's collection differs from what the stored pages give; empty if it does not.

    `folder` is the dataset, with its pages in ``pages`` below it, and `source` that of its card. The neighbourhood of
    each of the labelled `papers` must be whole, its title and abstract those of its page. The works and citations of
    the stored `graph` are compared too.
    """
    if not (folder / "pages").is_dir():
        return [f"{folder / 'pages'} is missing; {AGAIN}"]
    wanted = {part.name: source["wanted"][part.name] for part in fields(Wanted)}
    wanted["seeds"] = tuple(wanted["seeds"])
    try:
        collected = collect(Wanted(**wanted), StoredPages(PageStore(folder / "pages")))
    except BadInput as error:
        return [f"{error}; {AGAIN}"]
    wrong = [
        f"the stored pages give {step} {name} {value}, the card says {source[step].get(name)}"
        for step, facts in collected.facts.items()
        for name, value in facts.items()
        if value != source[step].get(name)
    ]
    whole = collected.focal - collected.cut_short
    for paper in papers:
        number = int(paper["openalex_id"][1:])
        if number not in whole:
            wrong.append(f"the neighbourhood of W{number} is not whole in the stored pages")
        elif any(collected.rows[number][name] != paper[name] for name in ("title", "abstract", "publication_year")):
            wrong.append(f"the stored pages give W{number} another title, abstract or year than the dataset")
    again = citation_graph(collected.works())
    same_works = np.array_equal(np.asarray(again.node_ids), np.asarray(graph.node_ids))
    if not same_works or not np.array_equal(again.edges(), graph.edges()):
        wrong.append(
            f"the stored pages give {again.n_papers:,} works and {again.n_citations:,} citations that are not the "
            f"{graph.n_papers:,} works and {graph.n_citations:,} citations of the graph"
        )
    return wrong


def floored(share: float, digits: int = 6) -> float:
    """A share rounded down, so that nothing but a complete one is 1."""
    return math.floor(share * 10**digits) / 10**digits


def citing_batches(wanted: Wanted, result: Collected) -> list[tuple[list[int], int, int]]:
    """Which works are asked for their citing works, at most 100 at a time, and in which years: ``(ids, from, to)``.

    The ids that were merged into a work are asked for too: the reference lists of citing works still have them.
    """
    span: dict[int, tuple[int, int]] = {}
    for focal in sorted(result.focal):
        row = result.rows[focal]
        first, last = row["publication_year"] + 1, row["publication_year"] + wanted.window
        for work in [focal, *result.cited(row)]:
            low, high = span.get(work, (first, last))
            span[work] = (min(low, first), max(high, last))
    most = math.inf if wanted.max_cited is None else wanted.max_cited
    allowed = [work for work in span if result.rows[work]["cited_by_count"] <= most]
    allowed.sort(key=lambda work: (*span[work], work))
    years = {number: span[number if number in span else result.merged[number]] for number in result.ids_of(allowed)}
    return [(ids, min(years[n][0] for n in ids), max(years[n][1] for n in ids)) for ids in batches(years)]


def batches(values: Iterable[Any]) -> list[list[Any]]:
    """Values of a filter, for one request after the other: at most 100, and at most `LONGEST_FILTER` bytes.

    Examples
    --------
    >>> [len(values) for values in batches(range(101))], len(batches(["10.1/" + 1000 * "x"] * 5))
    ([100, 1], 3)
    """
    found: list[list[Any]] = []
    room = 0
    for value in values:
        length = len(quote_plus(f"|{value}"))
        if not found or len(found[-1]) == MAX_IDS or length > room:
            found.append([])
            room = LONGEST_FILTER
        found[-1].append(value)
        room -= length
    return found


def seed_filters(seeds: Sequence[str]) -> list[tuple[str, list[str]]]:
    """``(filter, values)`` of the requests that ask for seeds, without the DOIs that no filter can hold."""
    ids = [seed for seed in seeds if short_id(seed) is not None]
    # In a filter a comma or a bar would end the value.
    dois = [seed for seed in seeds if short_id(seed) is None and not re.search(r"[,|!]", seed)]
    return [("openalex", batch) for batch in batches(ids)] + [("doi", batch) for batch in batches(dois)]


def _focal(wanted: Wanted, source: Connection, result: Collected, report: Report) -> None:
    asked = found = cut = 0

    def add(work: dict[str, Any]) -> None:
        nonlocal cut
        authors, number = work.get("authorships"), short_id(work.get("id"))
        is_full = isinstance(authors, list) and len(authors) == MOST_AUTHORS
        if number is not None and (is_full or work.get("is_authors_truncated") is True):
            cut += 1
            work = {**work, "authorships": (single(source, f"W{number}") or {}).get("authorships")}
            report("authors one by one", 1, cut)
        row = result.row(work)
        if row is not None:
            number, year = row["work_id"], row["publication_year"]
            result.rows[number] = row
            if (wanted.from_year or year) <= year <= (wanted.to_year or year):
                result.focal.add(number)

    if wanted.query is not None:
        query = Works(source).filter(**_years(wanted.from_year, wanted.to_year), has_abstract=True).select(FOCAL)
        query.search_title_and_abstract(wanted.query.strip())
        for page in pages(query):
            asked = max(asked, min(page.count, wanted.max_focal))
            for work in page.works[: wanted.max_focal - found]:
                found += 1
                add(work)
            report("focal papers", 1, -(-asked // MAX_IDS))
            if found >= wanted.max_focal:
                break
        if found < asked:
            source.forget(query.sent)
    seeds = wanted.seeds[: max(0, wanted.max_focal - found)]
    for work in _seeds(seeds, source, result, report):
        found += 1
        add(work)
    result.facts["focal"] = {"asked": asked + len(seeds), "found": found, "used": len(result.focal)}


def _seeds(seeds: Sequence[str], source: Connection, result: Collected, report: Report) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for work in _listed(source, "seeds", seed_filters(seeds), FOCAL, report):
        seen |= {f"W{short_id(work['id'])}", normalised_doi(work.get("doi"))}
        yield work
    left = [seed for seed in seeds if seed not in seen]
    for seed in left:
        work = single(source, seed if short_id(seed) is not None else f"doi:{seed}")
        report("seeds one by one", 1, len(left))
        if work is None:
            result.unusable[seed] = "not_found"
        else:
            result.note_merge(short_id(seed), work)
            yield work


def _references(source: Connection, result: Collected, report: Report) -> None:
    cited = {number for focal in result.focal for number in result.rows[focal]["referenced_works"]}
    wanted = sorted(cited - set(result.rows) - {DELETED_WORK})
    filters = [("openalex", batch) for batch in batches(f"W{number}" for number in wanted)]
    for work in _listed(source, "references", filters, REFERENCE, report):
        row = result.row(work)
        if row is not None:
            result.rows.setdefault(row["work_id"], row)
    # Lists leave out merged works. A look-up of one work costs nothing and gives the work that it was merged into.
    gone = len(cited & {DELETED_WORK})
    left = sorted(set(wanted) - set(result.rows))
    for number in left:
        work = single(source, f"W{number}")
        report("references one by one", 1, len(left))
        # Only the fields that lists give, so that a row does not depend on how it was fetched.
        row = None if work is None else result.row({name: work.get(name) for name in REFERENCE})
        if work is None or row is None:
            gone += 1
        else:
            result.note_merge(number, work)
            result.rows.setdefault(row["work_id"], row)
    counts = {"cited": len(cited), "found": len(cited) - gone, "merged": len(result.merged), "gone": gone}
    result.facts["references"] = counts


def _listed(
    source: Connection, step: str, filters: list[tuple[str, list[str]]], select: list[str], report: Report
) -> Iterator[dict[str, Any]]:
    """Works with one of the values of a filter, for one ``(filter, values)`` after the other."""
    for name, values in filters:
        for page in pages(Works(source).filter(**{name: "|".join(values)}).select(select), most=len(values)):
            yield from page.works
        report(step, 1, len(filters))


def _citing(wanted: Wanted, source: Connection, result: Collected, report: Report) -> None:
    planned = citing_batches(wanted, result)
    expected = received = 0
    complete: set[int] = set()
    citing: dict[int, dict[str, Any]] = {}
    for ids, first, last in planned:
        works, promised, short = _citing_batch(source, ids, first, last)
        for work in works.values():
            row = result.row(work)
            if row is not None:
                citing.setdefault(row["work_id"], row)
        expected += max(promised, len(works)) if short else len(works)
        received += len(works)
        complete.update(set(ids) - short)
        report("citing works", 1, len(planned))
    result.rows = citing | result.rows
    needed = {focal: {focal, *result.cited(result.rows[focal])} for focal in result.focal}
    neighbours = set().union(*needed.values())
    asked = neighbours - {result.merged.get(number, number) for number in set(result.ids_of(neighbours)) - complete}
    result.cut_short = {focal for focal, works in needed.items() if not works <= asked}
    result.facts["citing"] = {
        "works_asked_for": len(asked),
        "works_not_asked_for": len(neighbours - asked),
        "records_promised": expected,
        "records_received": received,
        "share_received": floored(received / expected) if expected else 1.0,
        "works": len(citing),
    }


def _citing_batch(source: Connection, ids: list[int], first: int, last: int) -> tuple[dict[str, Any], int, set[int]]:
    """Works by id that cite one of `ids` in the years from `first` to `last`; their number by the API's count; and
    those of `ids` whose citing works are incomplete.

    If the API gives fewer works than its count says, the query is split into halves, first of the ids and then of the
    years, until the works for which answers are incomplete are known. Their pages are forgotten, so that the next run
    fetches them again.
    """
    query = Works(source).filter(cites="|".join(f"W{number}" for number in ids), **_years(first, last)).select(NARROW)
    middle, year = len(ids) // 2, (first + last) // 2
    if len(ids) > 1:
        parts = [(ids[:middle], first, last), (ids[middle:], first, last)]
    else:
        parts = [(ids, first, year), (ids, year + 1, last)] if first < last else []
    works: dict[str, Any] = {}
    promised = 0
    # What cannot be asked for in parts is asked for once more. The second answer takes the place of the first, here as
    # in the page store, so that a replay of the stored pages comes to the same result.
    for again in (False,) if parts else (False, True):
        received, promised = whole_answer(query, again=again)
        works = {str(work.get("id")) if isinstance(work, dict) else repr(work): work for work in received}
        if len(works) >= promised:
            return works, promised, set()
    if not parts:
        source.forget(query.sent)
        return works, promised, set(ids)
    short: set[int] = set()
    for part in parts:
        more, _, missing = _citing_batch(source, *part)
        works |= more
        short |= missing
    return works, promised, short


def _years(first: int | None, last: int | None) -> dict[str, str]:
    if first is None and last is None:
        return {}
    return {"publication_year": str(first) if first == last else f"{first or ''}-{last or ''}"}
