"""From works to a dataset on disk: the labels are the graph's, the bytes are always the same, and tampering shows."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets import hub
from scisci_gym.datasets.build import BuildOptions, build_dataset
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.paper import COLUMNS, DISRUPTION_ORDER, Paper, side_of
from scisci_gym.datasets.splits import CUTOFF_VIEWS, SPLITS
from scisci_gym.datasets.store import (
    FEATURES,
    load_card,
    load_papers,
    save_dataset,
    save_view,
    split_file,
)
from scisci_gym.datasets.verify import recount, verify


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory, small_works):
    out = tmp_path_factory.mktemp("built")
    works, dropped = read_works(small_works, progress=False)
    rules = LabelRules(scheme="quantile", min_group=3, last_complete_year=2019)
    build_dataset(works, dropped, out, BuildOptions(rules, cutoff=date(2013, 1, 1)))
    return out


def test_hugging_face_reads_the_folder_by_its_card(built, tmp_path):
    from datasets import load_dataset

    dataset, card = load_dataset(str(built), cache_dir=str(tmp_path)), load_card(built)
    shares = card["splits"] | card["cutoff_views"]
    assert {name: len(rows) for name, rows in dataset.items()} == {n: share["papers"] for n, share in shares.items()}
    assert set(dataset) == {*SPLITS, *CUTOFF_VIEWS}
    assert dataset["train"].features == FEATURES
    assert dataset["test"].to_list() == [paper.to_row() for paper in load_papers(built, "test")]


def test_the_card_explains_every_column(built):
    text = (built / "README.md").read_text()
    assert [name for name in COLUMNS if f"\n| `{name}` | " not in text] == []


def test_counts_are_those_of_plain_sets_on_the_stored_graph(built):
    graph = CitationGraph.load(built / "graph")
    place = {f"W{number}": at for at, number in enumerate(np.asarray(graph.node_ids).tolist())}
    for split in SPLITS:
        for paper in load_papers(built, split):
            assert (paper.n_i, paper.n_j, paper.n_k) == recount(graph, place[paper.openalex_id], 5)


def test_the_same_input_gives_the_same_bytes(tmp_path, small_works, monkeypatch):
    monkeypatch.setenv("SCISCI_GYM_THREADS", "1")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    outs = [tmp_path / name / "out" for name in ("one", "two")]
    works, dropped = read_works(small_works, progress=False)
    # At once, and in slices of the citing years.
    for out, memory in zip(outs, (None, 1_090_000), strict=True):
        build_dataset(works, dropped, out, BuildOptions(LabelRules(), balance_train=True, memory=memory))
    assert tree(outs[0]) == tree(outs[1])


@pytest.mark.parametrize("day", ["２００３-０５-０１", "around 2003-05-01 or later"])
def test_a_date_of_any_letters_survives_a_build(tmp_path, small_works, day):
    works, dropped = read_works(small_works, progress=False)
    place = works.schema.get_field_index("publication_date")
    column = pa.array([day] * len(works), pa.string())
    works = works.set_column(place, works.schema.field(place), column)
    build_dataset(works, dropped, tmp_path / "out", BuildOptions(LabelRules()))
    assert {paper.publication_date for paper in load_papers(tmp_path / "out", "train")} == {day}


def test_reading_in_shards_gives_the_same_dataset(tmp_path, small_works, command):
    works, dropped = read_works(small_works, progress=False)
    build_dataset(works, dropped, tmp_path / "memory", BuildOptions(LabelRules()))
    result = command("build", "snapshot", small_works, "--out", tmp_path / "shards", "--quiet")
    assert result.exit_code == 0, result.output
    assert tree(tmp_path / "memory" / "data") == tree(tmp_path / "shards" / "data")
    assert tree(tmp_path / "memory" / "graph") == tree(tmp_path / "shards" / "graph")


def test_a_balanced_training_set_and_natural_test_set(tmp_path, small_works):
    works, dropped = read_works(small_works, progress=False)
    plain = build_dataset(works, dropped, tmp_path / "plain", BuildOptions(LabelRules()))
    even = build_dataset(works, dropped, tmp_path / "even", BuildOptions(LabelRules(), balance_train=True))
    assert len(set(even["splits"]["train"]["labels"].values())) == 1
    assert even["splits"]["test"] == plain["splits"]["test"]
    thinned = plain["splits"]["train"]["papers"] - even["splits"]["train"]["papers"]
    assert even["not_labelled"]["thinned_out"] == thinned > 0


def test_the_cutoff_divides_the_test_set(built):
    before, since = load_papers(built, "test_pre_cutoff"), load_papers(built, "test_post_cutoff")
    assert sorted(p.openalex_id for p in before + since) == sorted(p.openalex_id for p in load_papers(built, "test"))
    assert all(p.publication_date < "2013-01-01" for p in before)
    assert all(p.publication_date > "2013-01-01" for p in since)


def test_novelty_labels_can_be_had_and_left_out(tmp_path, small_works, built):
    assert any(paper.novelty_label for paper in load_papers(built, "train"))
    assert sum(load_card(built)["splits"]["train"]["novelty_labels"].values()) == len(load_papers(built, "train"))
    withheld = [paper for paper in load_papers(built, "train") if paper.novelty_withheld]
    assert withheld
    assert all(paper.novelty_label is None and paper.novelty_score is not None for paper in withheld)
    novelty = load_card(built)["novelty"]
    assert len(withheld) < novelty["withheld"] < novelty["scored"]
    assert all(-1 <= correlation <= 1 for _, _, *both in novelty["agreement"] for correlation in both if correlation)
    works, dropped = read_works(small_works, progress=False)
    card = build_dataset(works, dropped, tmp_path, BuildOptions(LabelRules(), novelty=False))
    assert "novelty" not in card
    assert {paper.novelty_score for paper in load_papers(tmp_path, "train")} == {None}


score = st.none() | st.floats(-1, 1, allow_nan=False)
share = st.none() | st.floats(0, 1, allow_nan=False)
text = st.text(max_size=20)
papers = st.builds(
    Paper,
    openalex_id=text.filter(str.strip),
    title=text.filter(str.strip),
    abstract=text,
    publication_year=st.integers(1800, 2100),
    cited_by_count=st.integers(0, 2**62),
    cd_index=score,
    novelty_score=share,
    conventionality_score=share,
    disruption_label=st.none() | st.sampled_from(["disruptive", "consolidating", "neutral"]),
    primary_field=text,
    label_scheme=st.just("quantile"),
    doi=text,
    publication_date=text,
    venue=text,
    authors_count=st.integers(0, 10**6),
    reference_count=st.integers(0, 10**6),
    reference_titles=st.lists(text, max_size=3).map(tuple),
    cd_window=st.none() | st.integers(1, 50),
    cd_threshold=st.floats(0, 1),
    n_i=st.none() | st.integers(0, 2**62),
    n_j=st.none() | st.integers(0, 2**62),
    n_k=st.none() | st.integers(0, 2**62),
    citation_percentile=share,
    hit_share=share,
)


def test_every_field_of_a_paper_has_a_column():
    assert set(FEATURES) == {field.name for field in dataclasses.fields(Paper)}


@given(papers)
def test_a_paper_survives_the_table(tmp_path_factory, paper):
    folder = tmp_path_factory.mktemp("papers")
    (folder / "data").mkdir()
    save_view(folder, "test", [paper])
    assert load_papers(folder, "test") == [paper]


def test_verify_passes_on_what_was_built(built, command):
    assert [check.name for check in verify(built) if not check.holds] == []
    result = command("data", "verify", built)
    assert result.exit_code == 0, result.output
    assert "fails" not in result.output


def rewrite(folder: Path, split: str, **changes) -> None:
    path = split_file(folder, split)
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0] |= changes
    pq.write_table(type(table).from_pylist(rows, table.schema), path)


def edit_card(folder: Path, change) -> None:
    card = json.loads((folder / "card.json").read_text())
    change(card)
    (folder / "card.json").write_text(json.dumps(card))


def spoil_graph(folder: Path) -> None:
    graph = CitationGraph.load(folder / "graph")
    citing, cited = graph.edges()
    CitationGraph.from_edges(np.roll(citing, 7), cited, graph.years, graph.node_ids).save(folder / "graph")


TAMPERING = {
    "a word of an abstract": (lambda f: rewrite(f, "train", abstract="another"), "content hash"),
    "a label": (lambda f: rewrite(f, "test", disruption_label="neutral", cd_index=0.9), "labels follow from scores"),
    "a score": (lambda f: rewrite(f, "validation", novelty_score=0.123), "novelty from the graph"),
    "a year": (lambda f: rewrite(f, "train", publication_year=2018), "splits"),
    "a paper twice": (lambda f: shutil.copy(split_file(f, "train"), split_file(f, "validation")), "label counts"),
    "a view": (lambda f: shutil.copy(split_file(f, "test"), split_file(f, "test_pre_cutoff")), "cutoff views"),
    "the graph": (spoil_graph, "labels from the graph"),
    "a file of the graph": (lambda f: (f / "graph" / "years.npy").unlink(), "graph"),
    "the hash": (lambda f: edit_card(f, lambda card: card.update(content_hash="0")), "content hash"),
    "a count": (lambda f: edit_card(f, lambda c: c["splits"]["test"]["labels"].update(neutral=1)), "label counts"),
    "the cuts": (lambda f: edit_card(f, lambda c: c["cuts"].clear()), "labels follow from scores"),
    "a parquet file": (lambda f: split_file(f, "test").write_bytes(b"PAR1"), "files"),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found(tmp_path, built, command, what):
    folder = tmp_path / "copy"
    shutil.copytree(built, folder)
    tamper, name = TAMPERING[what]
    tamper(folder)
    failed = [check.name for check in verify(folder, sample=10_000) if not check.holds]
    assert name in failed
    result = command("data", "verify", folder, "--sample", 10_000)
    assert result.exit_code == 1
    assert f"fails  {name}" in result.output


def forge(folder: Path, change, card_change=lambda card: None) -> None:
    """Change every paper and write hash and counts anew: a dataset that was built wrong, not one that was damaged."""
    papers = {name: [change(paper) for paper in load_papers(folder, name)] for name in SPLITS}
    views = [name for name in CUTOFF_VIEWS if split_file(folder, name).is_file()]
    saved = save_dataset(folder, papers)
    for name in views:
        save_view(folder, name, [change(paper) for paper in load_papers(folder, name)])

    def again(card) -> None:
        card.update(content_hash=saved.content_hash, splits=saved.splits)
        card_change(card)

    edit_card(folder, again)


def other_novelty(paper: Paper) -> Paper:
    """High and low scores change places, and with them novel and conventional."""
    scores = {"novelty_score": paper.conventionality_score, "conventionality_score": paper.novelty_score}
    return dataclasses.replace(paper, **scores, novelty_label=None)


def by_cuts(shift: float):
    """Labels by cuts that lie higher than the tertiles."""

    def change(folder: Path) -> None:
        cuts = {(n, y): (low + shift, high + shift) for n, y, low, high in load_card(folder)["cuts"]}

        def label(paper: Paper) -> Paper:
            low, high = cuts[paper.primary_field, paper.publication_year]
            return dataclasses.replace(paper, disruption_label=DISRUPTION_ORDER[1 + side_of(paper.cd_index, low, high)])

        told = [[*key, *cut] for key, cut in cuts.items()]
        forge(folder, label, lambda card: card.update(cuts=told))

    return change


def inverted(paper: Paper) -> Paper:
    return dataclasses.replace(paper, citation_percentile=1 - (paper.citation_percentile or 0.0))


FORGERIES = {
    "shifted cuts": (by_cuts(0.1), {"cuts between tertiles", "disruption labels from the graph"}),
    "inverted percentiles": (lambda f: forge(f, inverted), {"citation percentiles from the graph", "share of hits"}),
    "swapped novelty": (lambda f: forge(f, other_novelty), {"novelty from the graph"}),
    "another agreement of the null networks": (
        lambda f: edit_card(f, lambda card: [row.__setitem__(3, 0.999) for row in card["novelty"]["agreement"]]),
        {"novelty from the graph"},
    ),
    "another share of hits": (
        lambda f: forge(
            f, lambda p: dataclasses.replace(p, hit_share=0.05), lambda c: c["hits"].update(share_of_train=0.05)
        ),
        {"share of hits"},
    ),
    "a cut too few": (lambda f: edit_card(f, lambda card: card["cuts"].pop()), {"cuts between tertiles"}),
    "another field": (
        lambda f: forge(f, lambda p: dataclasses.replace(p, primary_field=f"{p.primary_field} B")),
        {"disruption labels from the graph"},
    ),
    "another CD index with the same label": (
        lambda f: forge(f, lambda p: dataclasses.replace(p, cd_index=(p.cd_index or 0.0) * (1 - 1e-6))),
        {"disruption labels from the graph"},
    ),
    "other counts": (
        lambda f: forge(f, lambda p: dataclasses.replace(p, n_k=(p.n_k or 0) + 1, reference_count=99)),
        {"disruption labels from the graph"},
    ),
    "another window in the papers": (
        lambda f: forge(f, lambda p: dataclasses.replace(p, cd_window=10)),
        {"labels follow from scores"},
    ),
    "another threshold in the papers": (
        lambda f: forge(f, lambda p: dataclasses.replace(p, cd_threshold=0.2)),
        {"labels follow from scores"},
    ),
    "papers that are not eligible": (
        lambda f: edit_card(f, lambda card: card["labels"].update(min_citations=20)),
        {"cuts between tertiles", "disruption labels from the graph", "papers without a label"},
    ),
    "a later last year": (
        lambda f: edit_card(f, lambda card: card["labels"].update(last_complete_year=2100)),
        {"papers without a label"},
    ),
    "other counts of papers without a label": (
        lambda f: edit_card(f, lambda card: card["not_labelled"].update(few_citations=7)),
        {"papers without a label"},
    ),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_dataset_that_was_built_wrong_fails_by_name(tmp_path, built, what):
    folder = tmp_path / "copy"
    shutil.copytree(built, folder)
    forge_it, names = FORGERIES[what]
    forge_it(folder)
    assert names <= {check.name for check in verify(folder) if not check.holds}
    assert all(check.holds for check in verify(folder) if check.name in ("content hash", "label counts", "splits"))


def test_a_dataset_is_pushed_with_its_card_and_without_its_graph(built, monkeypatch):
    calls = []

    class Hub:
        def create_repo(self, repo, **options):
            calls.append((repo, options["repo_type"], options["private"]))

        def upload_folder(self, **options):
            calls.append(options["allow_patterns"])
            return "commit"

    monkeypatch.setattr(hub, "HfApi", Hub)
    assert hub.push(built, "me/papers") == "commit"
    assert calls == [("me/papers", "dataset", True), ["README.md", "card.json", "data/*.parquet"]]
    readme = (built / "README.md").read_text()
    assert "split: test_post_cutoff" in readme


def test_the_shards_are_read_as_often_for_many_papers_as_for_few(tmp_path, small_works, command, monkeypatch):
    reads = []
    plain = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, *args, **named: reads.append(args) or plain(self, *args, **named)
    )
    seen = []
    for rows_at_a_time in (4096, 8):
        monkeypatch.setattr("scisci_gym.datasets.build.ROWS_AT_A_TIME", rows_at_a_time)
        reads.clear()
        result = command("build", "snapshot", small_works, "--out", tmp_path / str(rows_at_a_time), "--quiet")
        assert result.exit_code == 0, result.output
        seen.append(len(reads))
    assert seen[0] == seen[1] > 0
    assert tree(tmp_path / "4096" / "data") == tree(tmp_path / "8" / "data")
