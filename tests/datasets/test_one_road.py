"""Papers have the same labels by whatever road they come, and no training or validation label sees the test years."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scisci_gym.datasets.build import BuildOptions, build_dataset, citation_graph
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.labels.graph_labels import PAPERS
from scisci_gym.datasets.labels.table import label_table
from scisci_gym.datasets.openalex.notices import title_as_published
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.sciscinet.build import build_sciscinet
from scisci_gym.datasets.splits import certainly_before
from scisci_gym.datasets.store import load_card, load_papers
from scisci_gym.datasets.verify import verify

SPLITS = ("train", "validation", "test")
LABELS = ("disruption_label", "novelty_label", "hit_label", "cd_index", "citation_percentile")


def papers_of(folder: Path) -> dict:
    return {paper.openalex_id: paper for split in SPLITS for paper in load_papers(folder, split)}


def labels_of(papers: dict, names=LABELS) -> dict:
    return {number: tuple(getattr(paper, name) for name in names) for number, paper in papers.items()}


def as_parquet_snapshot(works: Path, folder: Path) -> Path:
    """The same works in the parquet format of a snapshot."""
    for part in sorted(works.rglob("*.gz")):
        with gzip.open(part) as stream:
            records = [json.loads(line) for line in stream]
        for work in records:
            work["abstract_inverted_index"] = json.dumps(work["abstract_inverted_index"])
            work["authorships"] = json.dumps(work["authorships"])
        out = (folder / part.relative_to(works)).with_suffix(".parquet")
        out.parent.mkdir(parents=True, exist_ok=True)
        columns = sorted({name for work in records for name in work} - {"ids", "open_access", "locations"})
        pq.write_table(pa.table({name: [work.get(name) for work in records] for name in columns}), out)
    return folder


def as_sciscinet(works: Path, folder: Path, window: int) -> tuple[Path, Path]:
    """The tables that SciSciNet would publish about the same works: their disruption, citations and fields."""
    table, _ = read_works(works, progress=False)
    graph = citation_graph(table)
    n_i, n_j, n_k = disruption_counts(graph, window)
    total = n_i + n_j + n_k
    abstracts = [
        json.dumps({word: [at] for at, word in enumerate(dict.fromkeys(abstract.split()))}) if abstract else None
        for abstract in table["abstract"].to_pylist()
    ]
    papers = {
        "paperid": table["work_id"],
        "year": table["publication_year"],
        "title": table["title"],
        "doi": table["doi"],
        "language": table["language"],
        "reference_count": graph.reference_counts,
        f"C{window}": n_i + n_j,
        "disruption": pa.array((n_i - n_j) / np.maximum(total, 1), mask=total == 0),
        "abstract_inverted_index": pa.array(abstracts, pa.string()),
    }
    pq.write_table(pa.table(papers), folder / "papers.parquet")
    links = {"paperid": table["work_id"], "display_name": table["field"], "level": pa.array([0] * table.num_rows)}
    pq.write_table(pa.table(links), folder / "fields.parquet")
    return folder / "papers.parquet", folder / "fields.parquet"


def compare_the_roads(works: Path, folder: Path, rules: LabelRules, split: str) -> int:
    """Builds by every road that needs no server, and compares every label of every paper; how many there are."""
    options = BuildOptions(rules, split)
    for name, source in (("json", works), ("parquet", as_parquet_snapshot(works, folder / "snapshot"))):
        build_dataset(*read_works(source, progress=False), folder / name, options)
    papers = papers_of(folder / "json")
    assert labels_of(papers) == labels_of(papers_of(folder / "parquet"))

    table = label_table(folder / "json" / "graph", papers=folder / "json" / "graph" / PAPERS, rules=rules)
    columns = ("disruption_label", "novelty_label", "hit_label", "cd", "citation_percentile")
    rows = zip(*(table[name].to_pylist() for name in ("id", "eligible", *columns)), strict=True)
    by_command = {f"W{row[0]}": row[2:] for row in rows if row[1]}
    assert set(papers) <= set(by_command)
    for number, told in labels_of(papers).items():
        assert tuple(value or None for value in by_command[number][:3]) == told[:3], number
        assert by_command[number][3:] == pytest.approx(told[3:], abs=1e-12), number

    file, links = as_sciscinet(works, folder, rules.window)
    build_sciscinet(file, folder / "sciscinet", options, fields=links, progress=False)
    published = papers_of(folder / "sciscinet")
    names = ("disruption_label", "cd_index")
    both = set(papers) & set(published)
    assert labels_of({n: papers[n] for n in both}, names) == labels_of({n: published[n] for n in both}, names)
    assert len(both) > 0.9 * len(papers)

    for name in ("json", "parquet", "sciscinet"):
        assert [check for check in verify(folder / name) if not check.holds] == []
    return len(papers)


@pytest.mark.parametrize("rules", [LabelRules(), LabelRules("quantile", window=3, min_group=3)])
def test_every_road_gives_the_same_labels(tmp_path, small_works, rules):
    assert compare_the_roads(small_works, tmp_path, rules, "publication") > 100


@pytest.mark.slow
@pytest.mark.parametrize("rules", [LabelRules(window=3), LabelRules("quantile", window=3)])
def test_every_road_gives_the_same_labels_to_real_papers(tmp_path, hepth, rules):
    assert compare_the_roads(hepth, tmp_path, rules, "publication") > 3000


def same_through_the_api(command, url: str, works: Path, folder: Path, *query) -> int:
    rules = LabelRules(min_references=1, min_citations=1, last_complete_year=2019 if "river" in query else 2002)
    build_dataset(*read_works(works, progress=False), folder / "whole", BuildOptions(rules, "publication"))
    result = command(
        "build", "openalex", *query, "--out", folder / "api", "--base-url", url, "--quiet", "--split", "publication",
        "--min-references", 1, "--min-citations", 1, "--last-complete-year", rules.last_complete_year,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    whole, part = papers_of(folder / "whole"), papers_of(folder / "api")
    names = ("disruption_label", "cd_index", "reference_titles")
    both = set(whole) & set(part)
    assert labels_of({n: part[n] for n in both}, names) == labels_of({n: whole[n] for n in both}, names)
    # A neighbourhood is no field: there is nothing to hold citations against.
    assert {paper.citation_percentile for paper in part.values()} == {None}
    assert [check for check in verify(folder / "api") if not check.holds] == []
    return len(both)


def test_the_api_gives_the_same_labels(command, serve, small_works, tmp_path):
    query = ("--query", "river", "--from-year", 1996, "--to-year", 2012, "--max-focal", 300)
    assert same_through_the_api(command, serve(small_works).url, small_works, tmp_path, *query) > 50


@pytest.mark.slow
def test_the_api_gives_the_same_labels_to_real_papers(command, serve, hepth, tmp_path):
    query = ("--query", "vortices", "--from-year", 1993, "--to-year", 1997, "--max-focal", 120)
    assert same_through_the_api(command, serve(hepth).url, hepth, tmp_path, *query) > 40


def no_label_sees_the_test_years(works: Path, folder: Path, rules: LabelRules) -> dict:
    """Takes away all works from the first test year on; every label of training and validation must stay. The card."""
    table, dropped = read_works(works, progress=False)
    card = build_dataset(table, dropped, folder / "whole", BuildOptions(rules))
    test_from = card["split"]["test_from"]
    before = table.filter(pa.array(table["publication_year"].to_numpy() < test_from))
    # Split by publication year: the years of the test set are gone, and this is about labels.
    earlier = dataclasses.replace(rules, last_complete_year=test_from - 1)
    build_dataset(before, dropped, folder / "before", BuildOptions(earlier, "publication"))
    again = papers_of(folder / "before")
    seen = {
        n: paper
        for split in SPLITS[:2]
        for n, paper in ((p.openalex_id, p) for p in load_papers(folder / "whole", split))
    }
    assert {paper.hit_label for paper in seen.values()} == {"hit", "ordinary"}
    names = (
        *LABELS,
        "novelty_score",
        "conventionality_score",
        "novelty_withheld",
        "n_i",
        "n_j",
        "n_k",
        "reference_titles",
    )
    assert labels_of(seen, names) == labels_of({n: again[n] for n in seen}, names)
    return card


@pytest.mark.parametrize("rules", [LabelRules(window=2), LabelRules("quantile", window=3, min_group=3)])
def test_no_training_or_validation_label_changes_without_the_test_years(tmp_path, small_works, rules):
    card = no_label_sees_the_test_years(small_works, tmp_path, rules)
    assert card["split"]["validation_to"] + rules.window < card["split"]["test_from"]
    text = (tmp_path / "whole" / "README.md").read_text()
    assert f"the CD index looks {rules.window} years ahead, and so do citation percentiles and hits" in text


def test_references_of_a_later_year_take_no_part_in_labels(tmp_path, snapshot_of, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        works = [json.loads(line) for line in stream]
    build_dataset(*read_works(small_works, progress=False), tmp_path / "plain", BuildOptions(LabelRules()))
    for work in works[:-200]:
        work["referenced_works"] += [works[-1]["id"]]
    table, dropped = read_works(snapshot_of(tmp_path / "in", works), progress=False)
    card = build_dataset(table, dropped, tmp_path / "later", BuildOptions(LabelRules()))
    assert labels_of(papers_of(tmp_path / "plain")) == labels_of(papers_of(tmp_path / "later"))
    years = [work["publication_year"] for work in works]
    assert card["citations"]["left_out"] == sum(year < years[-1] for year in years[:-200])


@pytest.mark.slow
@pytest.mark.parametrize("rules", [LabelRules(window=2), LabelRules("quantile", window=2)])
def test_no_label_of_real_papers_changes_without_the_test_years(tmp_path, hepth, rules):
    no_label_sees_the_test_years(hepth, tmp_path, rules)


def test_the_share_of_hits_is_that_of_the_training_papers(tmp_path, small_works):
    card = build_dataset(*read_works(small_works, progress=False), tmp_path, BuildOptions(LabelRules()))
    train = load_papers(tmp_path, "train")
    share = sum(paper.hit_label == "hit" for paper in train) / len(train)
    assert card["hits"]["share_of_train"] == share
    assert {paper.hit_share for paper in papers_of(tmp_path).values()} == {share}
    assert f"{share:.1%} of the training papers are hits" in (tmp_path / "README.md").read_text()


def test_only_references_that_appeared_before_are_shown_and_without_later_marks(tmp_path, snapshot_of, small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        works = [json.loads(line) for line in stream]
    plain = BuildOptions(LabelRules(), max_references=50)
    build_dataset(*read_works(small_works, progress=False), tmp_path / "plain", plain)
    focal = next(paper for paper in load_papers(tmp_path / "plain", "train") if paper.reference_titles)
    at = next(at for at, work in enumerate(works) if work["id"].endswith(f"/{focal.openalex_id}"))
    year = works[at]["publication_year"]
    works[at]["publication_date"] = f"{year}-06-15"
    same_year = [n for n, work in enumerate(works) if work["publication_year"] == year and n != at][:4]
    later = next(n for n, work in enumerate(works) if work["publication_year"] == year + 1)
    days = ("06-14", "06-15", "06-16", "01-01")
    for n, day in zip(same_year, days, strict=True):
        works[n] |= {"publication_date": f"{year}-{day}", "title": f"Of the same year {day}"}
    works[later]["title"] = "Of a later version"
    old = works[at]["referenced_works"][0]
    next(work for work in works if work["id"] == old)["title"] = "RETRACTED ARTICLE: Of the past"
    works[at]["referenced_works"] += [works[n]["id"] for n in (*same_year, later)]
    table, dropped = read_works(snapshot_of(tmp_path / "in", works), progress=False)
    build_dataset(table, dropped, tmp_path / "out", plain)
    titles = papers_of(tmp_path / "out")[focal.openalex_id].reference_titles
    assert "Of the same year 06-14" in titles
    assert "Of the past" in titles
    assert not {"Of a later version", *(f"Of the same year {day}" for day in days[1:])} & set(titles)
    assert "**The venue may have been learned after publication**" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.slow
def test_no_reference_of_real_papers_is_later_than_the_paper(tmp_path, hepth):
    build_dataset(*read_works(hepth, progress=False), tmp_path, BuildOptions(LabelRules("quantile", window=2)))
    table, _ = read_works(hepth, progress=False)
    dated = {}
    for title, date, year in zip(
        *(table[name].to_pylist() for name in ("title", "publication_date", "publication_year")), strict=True
    ):
        dated.setdefault(title_as_published(title), []).append((date, year))
    for paper in papers_of(tmp_path).values():
        day, own_year = paper.publication_date, paper.publication_year
        for title in paper.reference_titles:
            earlier = [certainly_before(date, year, day, own_year) for date, year in dated[title]]
            assert any(earlier), (paper.openalex_id, title)


def test_the_card_of_sciscinet_claims_no_windows(tmp_path, small_works):
    file, links = as_sciscinet(small_works, tmp_path, 5)
    build_sciscinet(file, tmp_path / "out", BuildOptions(LabelRules()), fields=links, progress=False)
    assert "citation percentiles and hits" not in (tmp_path / "out" / "README.md").read_text()
    assert "hits" not in load_card(tmp_path / "out")
