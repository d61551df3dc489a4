"""Titles that do not belong to their ids are noticed, and corrections of titles are not."""

from __future__ import annotations

import json
import random
from gzip import decompress

import pyarrow as pa
import pytest

from scisci_gym.datasets.openalex.record import WORKS_SCHEMA
from scisci_gym.datasets.openalex.snapshot import parts_of
from scisci_gym.datasets.openalex.works_table import WorksTable
from scisci_gym.datasets.title_changes import changed_altogether, scrambled_titles


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The Structure of Scientific Revolutions", "The structure of scientific revolutions."),
        ("On the origin of species", "On the Origin of Species by Means of Natural Selection"),
        ("Cold fusion in a jar", "RETRACTED ARTICLE: Cold fusion in a jar"),
        ("A study of H2O", "A study of H<sub>2</sub>O"),
        ("ON COMPUTABLE NUMBERS", "On Computable Numbers, with an Application to the Entscheidungsproblem"),
        ("Uber die spezielle Relativitatstheorie", "Über die spezielle Relativitätstheorie"),
        ("Labour and behaviour", "Labor and behavior"),
        ("黑洞的熵", "黑洞的熵与面积"),
        ("", "A title that was missing"),
        ("A title that is missing now", ""),
        ("?", "A title"),
    ],
)
def test_ordinary_corrections(before: str, after: str) -> None:
    assert not changed_altogether(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("On the origin of species", "A mathematical theory of communication"),
        ("黑洞的熵", "量子力学"),
        ("Go", "An introduction to chess"),
    ],
)
def test_another_title(before: str, after: str) -> None:
    assert changed_altogether(before, after)


def table(titles: list[str], first: int = 0) -> pa.Table:
    """Works with some titles, numbered from `first`."""
    empty = {"string": "", "bool": False}
    rows = [
        {
            **{field.name: empty.get(str(field.type), 0) for field in WORKS_SCHEMA},
            "work_id": number,
            "title": title,
            "referenced_works": [],
        }
        for number, title in enumerate(titles, first)
    ]
    return pa.Table.from_pylist(rows, WORKS_SCHEMA)


def parts_with(*parts: list[str]) -> WorksTable:
    """A works table with a piece for each list of titles; ids go on from piece to piece."""
    pieces, first = [], 0
    for titles in parts:
        pieces.append(table(titles, first))
        first += len(titles)
    return WorksTable._of(tuple(pieces))


@pytest.fixture(scope="module")
def titles(hepth) -> list[str]:
    """2,000 titles of one field, which are harder to tell apart than those of all science."""
    lines = decompress(parts_of(hepth)[0].path.read_bytes()).splitlines()[:2000]
    return [json.loads(line)["title"] for line in lines]


def corrected(titles: list[str]) -> list[str]:
    """What a quarter does to titles: every third has another case or a subtitle, and 1 in 100 is replaced."""
    changed = [title.upper() if at % 3 == 0 else title for at, title in enumerate(titles)]
    changed = [f"{title}: a review" if at % 7 == 0 else title for at, title in enumerate(changed)]
    return ["Untitled" if at % 100 == 0 else title for at, title in enumerate(changed)]


def test_corrections_of_real_titles_are_no_alarm(titles) -> None:
    before, after = (
        parts_with(titles[:1000], titles[1000:]),
        parts_with(corrected(titles)[:1000], corrected(titles)[1000:]),
    )
    assert scrambled_titles(before, after, ["first", "second"]) == (400, [])


@pytest.mark.parametrize("seed", range(3))
def test_one_part_in_which_a_tenth_is_scrambled(titles, seed: int) -> None:
    after = corrected(titles)
    places = random.Random(seed).sample(range(1000, 2000), 100)
    for place, other in zip(places, [*places[1:], places[0]], strict=True):
        after[place] = titles[other]
    compared, wrong = scrambled_titles(
        parts_with(titles), parts_with(after[:1000], after[1000:]), ["first", "second"], seed=seed
    )
    assert (compared, len(wrong)) == (400, 1)
    assert wrong[0].startswith("second: ")


def test_many_small_parts_are_judged_together(titles) -> None:
    few = [titles[at : at + 4] for at in range(0, 200, 4)]
    after = [[part[1], part[0], *part[2:]] for part in few]
    names = [f"part {number}" for number in range(len(few))]
    [line] = scrambled_titles(parts_with(*few), parts_with(*after), names)[1]
    assert line.startswith("all parts together: ")
    assert scrambled_titles(parts_with(*few), parts_with(*few), names) == (200, [])


def test_works_that_only_one_build_has_are_left_out(titles) -> None:
    before, after = WorksTable.of_table(table(titles[:50])), WorksTable.of_table(table(titles[100:150], first=50))
    assert scrambled_titles(before, after, ["only"]) == (0, [])
