"""What becomes of dirty works: each is labelled or counted under exactly one rule of the card."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from scisci_gym.datasets.build import BuildOptions, build_dataset, citation_graph
from scisci_gym.datasets.card import REASONS
from scisci_gym.datasets.labels.eligibility import LabelRules, content_checks
from scisci_gym.datasets.labels.graph_labels import graph_labels
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.openalex.works_table import WorksTable


def literature(**changes) -> list[dict]:
    """Two old papers, a focal one of 2000 that cites both, and five later papers that cite it; `changes` to it."""
    ids = [f"https://openalex.org/W{n}" for n in range(8)]
    plain = {"type": "article", "language": "en", "title": "T", "abstract_inverted_index": {"a": [0]}}
    works = [{**plain, "id": ids[n], "publication_year": 1990, "referenced_works": []} for n in (0, 1)]
    works.append({**plain, "id": ids[2], "publication_year": 2000, "referenced_works": ids[:2], **changes})
    works += [{**plain, "id": ids[n], "publication_year": 2002, "referenced_works": [ids[2]]} for n in range(3, 8)]
    return works


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"title": None}, "no_title"),
        ({"title": "  "}, "no_title"),
        ({"abstract_inverted_index": None}, "no_abstract"),
        ({"abstract_inverted_index": {"": [0]}}, "no_abstract"),
        ({"is_paratext": True}, "paratext"),
        ({"is_retracted": True}, "retracted"),
        ({"title": "RETRACTED: A theory"}, "withdrawn"),
        ({"title": "[Withdrawn] A theory"}, "withdrawn"),
        ({"title": "A theory (Retracted article. See vol. 3, p. 4)"}, "withdrawn"),
        ({"title": "Retraction of soft tissue in surgery"}, None),
        (
            {"abstract_inverted_index": {w: [n] for n, w in enumerate("This paper has been withdrawn".split())}},
            "withdrawn",
        ),
        ({"title": "Erratum: A theory"}, "not_an_article"),
        ({"title": "Expression of concern: A theory"}, "not_an_article"),
        ({"title": "Retraction note to: A theory"}, "not_an_article"),
        ({"type": "erratum"}, "not_an_article"),
        ({"type": "editorial"}, "not_an_article"),
        ({"language": "de"}, "other_language"),
        ({"language": None}, None),
        ({"primary_location": None, "primary_topic": None}, None),
        ({"referenced_works": []}, "few_references"),
        ({"referenced_works": ["https://openalex.org/W77"] * 5}, "few_references"),
        ({"publication_year": 2003}, "window_not_closed"),
    ],
)
def test_the_rule_that_a_dirty_paper_fails(tmp_path, snapshot_of, changes, reason):
    works, _ = read_works(snapshot_of(tmp_path, literature(**changes)), progress=False)
    table, graph = WorksTable.of_table(works), citation_graph(works)
    rules = LabelRules(window=2, min_references=1, min_citations=1, last_complete_year=2003)
    found = graph_labels(graph, rules, excluded=content_checks(table, rules))
    eligible, reasons = found.eligible, found.reasons
    focal = table.work_id.tolist().index(2)
    assert eligible[focal] == (reason is None)
    assert reasons.total() + eligible.sum() == 8
    assert set(reasons) <= set(REASONS)
    if reason is not None:
        assert reasons[reason] >= 1


def test_every_real_work_is_accounted_for(tmp_path, real_works):
    folder = tmp_path / "works"
    folder.mkdir()
    (folder / "part_0000.gz").write_bytes(real_works.read_bytes())
    works, dropped = read_works(folder, progress=False)
    assert works.num_rows + dropped.total() == 859
    table, graph = WorksTable.of_table(works), citation_graph(works)
    rules = LabelRules(min_citations=0, last_complete_year=2026)
    found = graph_labels(graph, rules, excluded=content_checks(table, rules))
    eligible, reasons = found.eligible, found.reasons
    assert eligible.sum() + reasons.total() == works.num_rows
    with gzip.open(real_works) as stream:
        records = [json.loads(line) for line in stream]
    assert reasons["no_title"] == sum(not (r["title"] or r["display_name"]) for r in records)
    assert reasons["paratext"] <= sum(r["type"] == "paratext" or r.get("is_paratext") is True for r in records)


def test_the_counts_of_the_card_add_up(tmp_path, small_works):
    works, dropped = read_works(small_works, progress=False)
    card = build_dataset(works, dropped + Counter(not_json=3), tmp_path, BuildOptions(LabelRules()))
    labelled = sum(share["papers"] for share in card["splits"].values())
    assert card["works_read"] == works.num_rows + 3
    assert labelled + sum(card["not_labelled"].values()) == card["works_in_graph"] == works.num_rows
    assert "line that is not JSON" in (tmp_path / "README.md").read_text()
