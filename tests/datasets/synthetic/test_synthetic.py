"""The made-up literature: labels come out of its graph, and its wording tells exactly as much about them as it says."""

from __future__ import annotations

import gzip
import json
from math import sqrt

import numpy as np
import pytest

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.disruption import cd_index
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.paper import DISRUPTION_LABELS, disruption_label
from scisci_gym.datasets.store import load_card, load_papers
from scisci_gym.datasets.synthetic.bayes import ceiling
from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus, style_from_text, write_synthetic_works

SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Four corpora of different seeds with all their labels: the works table and the label of each work (or None)."""
    made = []
    for seed in range(4):
        folder = tmp_path_factory.mktemp(f"corpus-{seed}")
        works, _ = read_works(
            write_synthetic_works(folder, SyntheticCorpus(papers=4000, seed=seed), LabelRules()), progress=False
        )
        cd = cd_index(citation_graph(works))
        made.append((works, [None if np.isnan(value) else disruption_label(value) for value in cd.tolist()]))
    return made


def pooled(corpora, column: str) -> tuple[list, list[str]]:
    values, labels = [], []
    for works, found in corpora:
        # Papers that cite nothing older than the data are all "disruptive": an artefact, and never eligible.
        cites = works["referenced_works"].combine_chunks().value_lengths().to_numpy() >= 5
        for value, label, ok in zip(works[column].to_pylist(), found, cites, strict=True):
            if label is not None and ok:
                values.append(value)
                labels.append(label)
    return values, labels


def bytes_of(folder, seed):
    part = next(write_synthetic_works(folder, SyntheticCorpus(papers=1200, seed=seed), LabelRules()).rglob("*.gz"))
    return part.read_bytes()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_corpus(tmp_path):
    assert bytes_of(tmp_path / "a", 5) == bytes_of(tmp_path / "b", 5) != bytes_of(tmp_path / "c", 6)


def test_works_have_openalex_shape(small_works):
    with gzip.open(next(small_works.rglob("*.gz"))) as stream:
        work = json.loads(stream.readline())
    assert {"id", "title", "publication_year", "referenced_works", "abstract_inverted_index", "authorships"} <= set(
        work
    )


def test_labels_are_the_cd_index_of_its_graph(command, tmp_path):
    result = command("build", "synthetic", "--papers", 3000, "--seed", 2, "--out", tmp_path, "--quiet")
    assert result.exit_code == 0, result.output
    works, _ = read_works(tmp_path / "source", progress=False)
    cd = dict(zip(works["work_id"].to_pylist(), cd_index(citation_graph(works)).tolist(), strict=True))
    for split in SPLITS:
        for paper in load_papers(tmp_path, split):
            assert paper.cd_index == cd[int(paper.openalex_id[1:])]
            assert paper.disruption_label == disruption_label(paper.cd_index)


def test_the_style_is_the_label_at_the_stated_rate(corpora):
    """The wording was drawn with fidelity 0.8; reading it well is right that often, within five standard errors."""
    texts, labels = pooled(corpora, "abstract")
    right = np.mean([style_from_text(text) == label for text, label in zip(texts, labels, strict=True)])
    assert abs(right - 0.8) < 5 * sqrt(0.8 * 0.2 / len(labels)) + MISREAD


# About one style in five hundred is misread, when few cue words came up.
MISREAD = 0.005


@pytest.mark.parametrize("fidelity", [0.5, 1.0])
def test_other_fidelities(tmp_path, fidelity):
    corpus = SyntheticCorpus(papers=4000, seed=1, fidelity=fidelity)
    works, _ = read_works(write_synthetic_works(tmp_path, corpus, LabelRules()), progress=False)
    cd = cd_index(citation_graph(works))
    pairs = [
        (style_from_text(text), disruption_label(value))
        for text, value in zip(works["abstract"].to_pylist(), cd.tolist(), strict=True)
        if not np.isnan(value)
    ]
    right = np.mean([style == label for style, label in pairs])
    assert abs(right - fidelity) < 5 * sqrt(fidelity * (1 - fidelity) / len(pairs)) + MISREAD


def test_no_learner_beats_the_ceiling(corpora):
    """Words learned on three corpora say less about the fourth than the rule that knows how it was written."""
    score, chance, best = learned(corpora, "abstract")
    assert chance < score <= best + MISREAD


@pytest.mark.parametrize("column", ["title", "venue", "publication_date", "authors_count", "field", "language"])
def test_nothing_but_the_wording_tells_the_label(corpora, column):
    score, chance, _ = learned(corpora, column)
    assert score < chance + 0.03


def learned(corpora, column: str) -> tuple[float, float, float]:
    """Accuracy of TF-IDF and logistic regression on an unseen corpus; of the majority class; of the Bayes rule."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    x, y = pooled(corpora[:3], column)
    x_new, y_new = pooled(corpora[3:], column)
    reader = make_pipeline(TfidfVectorizer(token_pattern=r"\S+"), LogisticRegression(max_iter=500))
    reader.fit([str(value) for value in x], y)
    score = float(np.mean(reader.predict([str(value) for value in x_new]) == np.array(y_new)))
    chance = max(y_new.count(label) for label in DISRUPTION_LABELS) / len(y_new)
    best = float(np.mean([style_from_text(str(v)) == label for v, label in zip(x_new, y_new, strict=True)]))
    return score, chance, best


def test_the_card_states_the_ceiling(command, tmp_path):
    command("build", "synthetic", "--papers", 3000, "--out", tmp_path, "--quiet")
    card = load_card(tmp_path)
    papers = {name: load_papers(tmp_path, name) for name in SPLITS}
    assert card["ceiling"] == ceiling(papers, 0.8)
    assert "tells the label with probability 0.8" in (tmp_path / "README.md").read_text()
    assert command("data", "verify", tmp_path).exit_code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"papers": 10}, "papers"),
        ({"fidelity": 0.2}, "fidelity"),
        ({"years": 3}, "years"),
        ({"words": 1}, "words"),
        ({"tells": ("fame",)}, "tells"),
    ],
)
def test_impossible_corpora_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        SyntheticCorpus(**options)


def test_the_wording_can_tell_novelty_and_hits_as_well_each_at_the_stated_rate(tmp_path, command):
    options = ("--papers", "3000", "--seed", "4", "--fidelity", "0.9", "--tells", "disruption,novelty,hit")
    assert command("build", "synthetic", *options, "--out", tmp_path).exit_code == 0
    papers = [paper for name in SPLITS for paper in load_papers(tmp_path, name)]
    for subject in ("disruption", "novelty", "hit"):
        labelled = [p for p in papers if getattr(p, f"{subject}_label") is not None]
        read = [style_from_text(p.abstract, subject) for p in labelled]
        right = np.mean([style == getattr(p, f"{subject}_label") for style, p in zip(read, labelled, strict=True)])
        assert abs(right - 0.9) < 5 * sqrt(0.9 * 0.1 / len(labelled)) + 0.03, subject
    found = load_card(tmp_path)["ceiling"]
    assert found["tells"] == ["disruption", "novelty", "hit"]
    assert found["novelty"]["test"]["accuracy"] > 0.75
