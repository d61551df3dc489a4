"""The frozen reader and the challenger that argues with its evidence."""

import asyncio
import dataclasses
import pickle
import random

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from scisci_gym import Paper, make
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.disruption import DisruptionEnv
from scisci_gym.envs.impact import ImpactEnv
from scisci_gym.envs.kit.episodes import play_episode
from scisci_gym.envs.opponents.challengers import Case, ReaderChallenger
from scisci_gym.envs.opponents.reader import fitted_readers, word_model

CUES = {"disruptive": "amber", "consolidating": "nectar", "neutral": "quartz"}
OTHERS = {"novel": "falcon", "conventional": "marble", "balanced": "willow"}
CD = {"disruptive": 0.5, "consolidating": -0.5, "neutral": 0.0}
SCORES = {"novel": (0.9, 0.1), "conventional": (0.1, 0.9), "balanced": (0.9, 0.9)}


def paper(index: int, disruption: str, novelty: str = "novel", cue: str | None = None) -> Paper:
    cues = f"It was {cue or CUES[disruption]} at number {index}. So was {OTHERS[novelty]}."
    novel, conventional = SCORES[novelty]
    return Paper(
        openalex_id=f"W{index}",
        title=f"Lake {index}",
        abstract=f"We saw water near the lake today. {cues}",
        publication_date="2000-01-01",
        publication_year=2000,
        disruption_label=disruption,
        cd_index=CD[disruption],
        novelty_label=novelty,
        novelty_score=novel,
        conventionality_score=conventional,
    )


def papers(count: int = 180) -> list[Paper]:
    rng = random.Random(0)
    return [paper(index, rng.choice(list(CUES)), rng.choice(list(OTHERS))) for index in range(count)]


def dataset(folder, train: list[Paper]) -> str:
    save_dataset(folder, {"train": train, "validation": train[:9], "test": train[:9]})
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return dataset(tmp_path_factory.mktemp("papers"), papers())


def test_it_learns_every_question_of_an_environment(folder):
    for reader, cues in zip(fitted_readers(folder, ImpactEnv), (CUES, OTHERS), strict=True):
        assert set(reader.labels) == set(cues)
        beliefs = reader.probabilities("Ice", "New.", [f"It was {cue}." for cue in cues.values()])
        assert beliefs.sum(axis=1) == pytest.approx(1.0)
        assert [reader.labels[best] for best in beliefs.argmax(axis=1)] == list(cues)


def test_what_it_says_of_a_paper_does_not_depend_on_that_papers_label(tmp_path):
    """Fitted on the paper itself, a model would give its label away in training and not in the test."""
    odd = paper(999, "disruptive", cue="granite granite granite")
    said = []
    for label in CUES:
        changed = dataclasses.replace(odd, disruption_label=label, cd_index=CD[label])
        (reader,) = fitted_readers(dataset(tmp_path / label, [*papers(), changed]), DisruptionEnv)
        said.append(reader.probabilities(odd.title, odd.abstract, [odd.abstract]))
    assert np.array_equal(said[0], said[1])
    assert np.array_equal(said[0], said[2])


def test_a_dataset_that_was_built_anew_in_its_folder_is_read_anew(tmp_path):
    before = fitted_readers(dataset(tmp_path, papers()), DisruptionEnv)
    assert fitted_readers(str(tmp_path), DisruptionEnv) is before, "once a process"
    (other,) = fitted_readers(dataset(tmp_path, papers(90)), DisruptionEnv)
    assert other is not before[0]
    said = [reader.probabilities("Ice", "New.", ["It was amber."]) for reader in (before[0], other)]
    assert not np.array_equal(said[0], said[1])


def argument(folder: str, label: str, named: str) -> str:
    one = paper(7, "disruptive")
    case = Case(one.title, one.abstract, "", "", label, tuple(CUES), named, DisruptionEnv)
    return asyncio.run(ReaderChallenger(folder).argue(case))


def test_the_challenger_says_how_strong_its_case_against_the_answer_is(folder):
    assert argument(folder, "disruptive", "neutral") == (
        'I would say disruptive, the evidence is strong: "It was amber at number 7."'
    )
    assert "neutral, the evidence is fair" in argument(folder, "neutral", "consolidating")
    assert "neutral, the evidence is weak" in argument(folder, "neutral", "disruptive")


@pytest.mark.parametrize("prompt", ["full", "short"])
def test_the_agent_reads_the_strength_and_nothing_of_the_outcome(folder, prompt):
    seen = set()
    for label in CUES:
        changed = dataclasses.replace(paper(7, "disruptive"), disruption_label=label, cd_index=CD[label])
        env = make(
            "impact-adversarial-v0", changed, challenger=f"reader:{folder}", control_rate=0.0, seed=1, prompt=prompt
        )
        episode = asyncio.run(play_episode(env, lambda shown: "<answer>neutral, novel</answer>"))
        seen.add(str(episode.observations))
    assert len(seen) == 1
    assert "the evidence is" in seen.pop()


def rewarded(folder: str, *passages: str, env_id: str = "disruption-adversarial-v0", label: str = "neutral") -> float:
    env = make(env_id, paper(7, "neutral"), reasons=f"reader:{folder}", control_rate=1.0)
    said = "".join(f"<quote>{passage}</quote>" for passage in passages)
    return asyncio.run(play_episode(env, lambda shown: f"{said}<answer>{label}</answer>")).reward - 1.2


def test_quotes_are_paid_by_what_they_tell_the_reader(folder):
    matters, idle = "It was quartz at number 7.", "We saw water near the lake today."
    assert rewarded(folder, matters) > 0.05
    assert rewarded(folder, idle) == pytest.approx(0.0)
    assert rewarded(folder, matters, "It was never said anywhere.") == pytest.approx(rewarded(folder, matters))
    other = "number 7. So was falcon."
    assert rewarded(folder, other) == pytest.approx(0.0)
    assert rewarded(folder, "quartz") == pytest.approx(0.0)
    for passage in (matters, other):
        assert rewarded(folder, passage, env_id="impact-adversarial-v0", label="neutral, novel") > 0.03


def test_a_perfect_agent_quotes_what_matters(folder):
    env = make("disruption-adversarial-v0", paper(7, "neutral"), reasons=f"reader:{folder}")
    assert "quartz" in env.gold_answer()
    assert asyncio.run(play_episode(env, lambda shown: env.gold_answer())).reward > 1.28


def test_reasons_are_asked_for_as_they_are_paid(folder):
    for reasons, words in (("quotes", "each of 5 to 25 words"), (f"reader:{folder}", "each of at least 5 words")):
        env = make("disruption-adversarial-v0", paper(7, "neutral"), reasons=reasons)
        episode = asyncio.run(play_episode(env, lambda shown: "<answer>neutral</answer>"))
        assert words in episode.observations[-1][-1]["content"]


def test_it_travels_to_workers(folder):
    challenger = pickle.loads(pickle.dumps(ReaderChallenger(folder)))
    assert challenger == ReaderChallenger(folder)


@pytest.mark.parametrize(
    ("train", "message"), [(None, "a reader is fitted on a training split"), (papers()[:3], "too few training papers")]
)
def test_a_folder_that_it_cannot_learn_from_is_refused_before_a_run_begins(tmp_path, train, message):
    folder = dataset(tmp_path, train) if train else str(tmp_path)
    with pytest.raises(ValueError, match=message):
        make("disruption-adversarial-v0", paper(1, "neutral"), challenger=f"reader:{folder}")


@pytest.mark.parametrize("labels", [tuple(CUES), ("disruptive", "neutral")])
def test_a_word_model_says_what_scikit_learn_says(labels):
    """The oracle is scikit-learn's own pipeline; of two labels it keeps one row of weights."""
    texts = [one.abstract for one in papers() if one.disruption_label in labels]
    truths = [one.disruption_label for one in papers() if one.disruption_label in labels]
    words = TfidfVectorizer(norm=None, binary=True, min_df=2)
    model = LogisticRegression(C=0.01).fit(words.fit_transform(texts), truths)
    asked = [*texts[:20], "", "amber", "amber amber NECTAR, quartz-water", "nothing known here"]
    expected = model.predict_proba(words.transform(asked))
    assert word_model(words, model).probabilities(asked) == pytest.approx(expected, abs=1e-12)
