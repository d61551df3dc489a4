"""What a later build changes: works by column, and labels with the measures that they follow from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from scisci_gym.datasets.openalex.merged_ids import RetiredIds
from scisci_gym.datasets.openalex.record import WORKS_SCHEMA, work_row
from scisci_gym.datasets.openalex.work_changes import WorkChanges, work_changes
from scisci_gym.datasets.openalex.works_table import WorksTable
from scisci_gym.datasets.paper import Paper
from scisci_gym.datasets.store import save_dataset
from scisci_gym.datasets.update import label_changes


def works(*records: dict) -> WorksTable:
    """A works table of records, each with an id and, if nothing else is said, the same of everything."""
    rows = [work_row({"publication_year": 2000, "title": "T", **record}) for record in records]
    return WorksTable.of_table(pa.Table.from_pylist(rows, WORKS_SCHEMA))


def test_every_column_is_compared() -> None:
    changes = {
        "title": {"title": "Another title"},
        "abstract": {"abstract_inverted_index": {"a": [0]}},
        "publication_year": {"publication_year": 2001},
        "is_retracted": {"is_retracted": True},
        "cited_by_count": {"cited_by_count": 7},
        "referenced_works": {"referenced_works": ["W1", "W2"]},
    }
    same = [{"id": f"W{number}", "referenced_works": ["W1"]} for number in range(1, len(changes) + 3)]
    after = [{**record, **change} for record, change in zip(same[2:], changes.values(), strict=True)]
    expected = WorkChanges(0, len(changes), 0, 0, dict.fromkeys(sorted(changes), 1))
    found = work_changes(works(*same), works(*reversed(after), *same[:2]))
    assert found == expected
    assert work_changes(works(*same), works(*reversed(same))) == WorkChanges(0, 0, 0, 0, {})


def test_texts_that_differ_only_in_where_they_are_cut() -> None:
    """The lists and texts of a column lie behind each other in memory."""
    before = works({"id": "W1", "title": "AB", "referenced_works": ["W1", "W2"]}, {"id": "W2", "title": "C"})
    after = works({"id": "W1", "title": "A", "referenced_works": ["W1"]}, {"id": "W2", "title": "BC"})
    assert work_changes(before, after).columns == {"title": 2, "referenced_works": 1}


def test_new_gone_and_merged_works() -> None:
    before = works(*({"id": f"W{number}"} for number in (1, 2, 3, 4)))
    after = works({"id": "W4"}, {"id": "W5"}, {"id": "W2"}, {"id": "W3"}, {"id": "W6"})
    after = after.without_retired(RetiredIds.of({1: 4, 2: -1, 7: 4}), Counter())
    assert work_changes(before, after) == WorkChanges(2, 0, 2, 1, {})


def test_part_of_a_table_is_compared_as_it_is() -> None:
    table = works(*({"id": f"W{number}", "title": f"T{number}"} for number in range(9)))
    odd = table.where(np.arange(9) % 2 == 1)
    assert work_changes(table, odd) == WorkChanges(0, 0, 5, 0, {})


def paper(number: int, cd: float, novelty: float | None = None, conventionality: float | None = None) -> Paper:
    return Paper(
        openalex_id=f"W{number}",
        title=f"Paper {number}",
        abstract="An abstract.",
        publication_year=2000 + number,
        cited_by_count=9,
        cd_index=cd,
        novelty_score=novelty,
        conventionality_score=conventionality,
    )


def test_labels_that_differ_are_listed_with_their_measures(tmp_path: Path) -> None:
    before = {
        "train": [paper(1, 0.05), paper(2, 0.5, 0.9, 0.1), paper(3, -0.5)],
        "validation": [paper(4, 0.0, 0.5, 0.5)],
        "test": [paper(5, 0.2)],
    }
    after = {
        "train": [paper(1, 0.15), paper(2, 0.4, 0.1, 0.9)],
        "validation": [paper(6, 0.0)],
        "test": [paper(4, 0.05, 0.5, 0.5), paper(5, 0.2)],
    }
    for name, papers in (("before", before), ("after", after)):
        save_dataset(tmp_path / name, papers)
    table, facts = label_changes(tmp_path / "before", tmp_path / "after")
    assert facts == {
        "entered": 1,
        "left": 1,
        "moved": 1,
        "labels": {
            "disruption_label": {"neutral to disruptive": 1, "consolidating to none": 1},
            "novelty_label": {"novel to conventional": 1},
        },
    }
    listed = {row["paper"]: row for row in table.to_pylist()}
    assert list(listed) == ["W1", "W2", "W3"]
    values = ("disruption_label", "cd_index", "novelty_label", "novelty_score", "split")
    assert [[listed[n][f"{name}_{when}"] for when in ("before", "after") for name in values] for n in listed] == [
        ["neutral", 0.05, None, None, "train", "disruptive", 0.15, None, None, "train"],
        ["disruptive", 0.5, "novel", 0.9, "train", "disruptive", 0.4, "conventional", 0.1, "train"],
        ["consolidating", -0.5, None, None, "train", None, None, None, None, None],
    ]


def test_nothing_differs_in_the_same_dataset(tmp_path: Path) -> None:
    save_dataset(tmp_path, {"train": [paper(1, 0.2)], "validation": [], "test": []})
    table, facts = label_changes(tmp_path, tmp_path)
    assert (len(table), facts["labels"]) == (0, {"disruption_label": {}, "novelty_label": {}})
