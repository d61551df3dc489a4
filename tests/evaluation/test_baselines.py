"""Baselines on every environment: graded by the environment, learned from training alone, as good as theory says."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from scisci_gym import Paper
from scisci_gym.datasets.paper import COLUMNS, Role
from scisci_gym.envs.kit.answers import format_number
from scisci_gym.envs.kit.episodes import run_sync
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.registry import make, spec, specs
from scisci_gym.evaluation import learned_baselines
from scisci_gym.evaluation.ask import grade
from scisci_gym.evaluation.baselines import Examples, baseline_answers, baseline_names, examples_of
from scisci_gym.evaluation.learned_baselines import (
    embeddings,
    label_probabilities_of,
    metadata_of,
    predicted_probabilities,
    remembering,
    sentence_encoder,
)
from scisci_gym.evaluation.outcome import outcome

ENVIRONMENTS = [env_class.env_id for env_class in specs()]


def letters(texts) -> np.ndarray:
    """A stand-in for sentence embeddings: how often each letter occurs."""
    return np.array([[text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_every_environment_is_answered_in_its_own_format(env_id: str, small_dataset) -> None:
    examples = examples_of(env_id, str(small_dataset), max_examples=24)
    env_class, n = spec(env_id), len(examples.test())
    names = baseline_names(env_class, letters)
    assert len(names) == 6
    for name in names:
        answers = run_sync(baseline_answers(examples, name, letters))
        assert [answer.example_id for answer in answers] == [env.example_id for env in examples.test()]
        # Of the episodes: that of a forecast paid by skill depends on the prior of the dataset.
        ranges = [env.reward_range for env in examples.test()]
        assert all(low <= answer.reward <= high for answer, (low, high) in zip(answers, ranges, strict=True))
        if env_class.asks_for == "label":
            assert all(answer.predicted in env_class.labels for answer in answers), name
        if env_class.asks_for != "number":
            stated = np.array([answer.probabilities for answer in answers])
            assert stated.shape == (n, len(env_class.labels))
            assert stated.sum(axis=1) == pytest.approx(np.ones(n), abs=1e-5)
        found = outcome(answers, env_class, examples.prior())
        assert found.main_score.low <= found.main_score.value <= found.main_score.high
        assert sum(year.n for year in found.years) == n


@pytest.mark.parametrize("env_id", [env_id for env_id in ENVIRONMENTS if spec(env_id).asks_for == "label"])
def test_a_constant_answer_gets_what_theory_says(env_id: str, small_dataset) -> None:
    examples = examples_of(env_id, str(small_dataset))
    answers = run_sync(baseline_answers(examples, "majority class"))
    found, labels = outcome(answers, spec(env_id), examples.prior()), spec(env_id).labels
    share = Counter(answer.expected for answer in answers)[answers[0].predicted] / len(answers)
    assert found.scores.mcc.value == found.scores.balanced.mcc.value == 0
    assert found.scores.accuracy.value == pytest.approx(share)
    # F1 of the one label that is named: precision `share`, recall 1; 0 for all others.
    assert found.scores.macro_f1.value == pytest.approx(2 * share / (1 + share) / len(labels))
    assert found.scores.balanced.accuracy.value == pytest.approx(1 / len({answer.expected for answer in answers}))
    assert found.discrimination is not None
    assert found.discrimination.auroc.value == 0.5


@pytest.mark.parametrize("env_id", [env_id for env_id in ENVIRONMENTS if spec(env_id).asks_for == "probabilities"])
def test_the_class_prior_has_no_skill(env_id: str, small_dataset) -> None:
    examples = examples_of(env_id, str(small_dataset))
    found = outcome(run_sync(baseline_answers(examples, "class prior")), spec(env_id), examples.prior())
    # Answers are written with six digits.
    assert found.main_score.value == pytest.approx(0, abs=1e-5)
    assert found.main == "brier_skill"


def test_random_answers_get_a_third(small_dataset) -> None:
    examples = examples_of("disruption-v0", str(small_dataset))
    drawn = [run_sync(baseline_answers(examples, "uniform random", seed=seed)) for seed in range(30)]
    accuracy = [np.mean([answer.predicted == answer.expected for answer in answers]) for answers in drawn]
    # Three standard errors of a mean over 30 draws of all examples.
    n = 30 * len(drawn[0])
    assert np.mean(accuracy) == pytest.approx(1 / 3, abs=3 * np.sqrt(2 / 9 / n))
    assert drawn[0] == run_sync(baseline_answers(examples, "uniform random", seed=0))


@pytest.mark.usefixtures("quick")
def test_probabilities_of_both_orders_of_a_pair_mirror_each_other(small_dataset) -> None:
    examples = examples_of("disruption-pairwise-v0", str(small_dataset))
    test = examples.test()
    found = predicted_probabilities(learned_baselines.TFIDF, examples.train, examples.validation, test)
    assert found[0::2] == pytest.approx(found[1::2, ::-1])
    assert [env.papers for env in test[0::2]] == [env.papers[::-1] for env in test[1::2]]


@pytest.mark.usefixtures("quick")
def test_labels_that_answer_two_questions_are_in_the_order_of_their_product() -> None:
    papers = sample_papers()
    envs = [make("impact-v0", paper) for paper in papers]
    found = predicted_probabilities(learned_baselines.METADATA, envs, [], envs).reshape(-1, 3, 3)
    env_class = spec("impact-v0")
    parts = [
        predicted_probabilities(
            learned_baselines.METADATA, [make(f"{kind}-v0", paper) for paper in papers], [], envs_of, seed=0
        )
        for kind in ("disruption", "novelty")
        for envs_of in [[make(f"{kind}-v0", paper) for paper in papers]]
    ]
    assert found.sum(axis=2) == pytest.approx(parts[0])
    assert found.sum(axis=1) == pytest.approx(parts[1])
    assert env_class.labels[5] == f"{env_class.label_parts[0][1]}, {env_class.label_parts[1][2]}"


def papers_with_words(n: int, start: int = 0) -> tuple[tuple[Paper, ...], tuple[str, ...]]:
    labels = tuple("neutral" if at % 2 else "disruptive" for at in range(n))
    words = {"neutral": "stone river", "disruptive": "flame cloud"}
    made = tuple(Paper(openalex_id=f"W{start + at}", title=f"{words[label]} {at}") for at, label in enumerate(labels))
    return made, labels


@pytest.mark.parametrize("learner", [learned_baselines.TFIDF, embeddings(letters)])
def test_text_baselines_learn_from_words(learner: learned_baselines.Learner) -> None:
    train, (test, expected) = papers_with_words(60), papers_with_words(10, 100)
    labels = ("disruptive", "neutral", "consolidating")
    found = label_probabilities_of(learner, labels, train, papers_with_words(10, 200), test)
    assert [labels[at] for at in found.argmax(axis=1)] == list(expected)
    assert (found[:, 2] == 0).all()


def test_candidates_are_chosen_on_validation_papers() -> None:
    """Validation labels that are the wrong way round choose the candidate that has learned least."""
    train, (test, _) = papers_with_words(60), papers_with_words(10, 100)
    (held_out, known), labels = papers_with_words(10, 200), ("disruptive", "neutral")
    swapped = tuple(labels[1 - labels.index(label)] for label in known)
    fair = label_probabilities_of(learned_baselines.TFIDF, labels, train, (held_out, known), test, by_brier=True)
    unfair = label_probabilities_of(learned_baselines.TFIDF, labels, train, (held_out, swapped), test, by_brier=True)
    assert fair.max(axis=1).mean() > unfair.max(axis=1).mean() + 0.1


@pytest.mark.parametrize("name", [name for name, column in COLUMNS.items() if column.role is Role.OUTCOME])
def test_metadata_reads_nothing_from_the_future(name: str) -> None:
    one, later = (dataclasses.replace(sample_papers()[0]) for _ in range(2))
    object.__setattr__(later, name, 77)
    assert metadata_of(later) == metadata_of(one)


def test_metadata_counts_the_references_that_came_before() -> None:
    one = sample_papers()[0]
    assert metadata_of(one)["references"] == pytest.approx(np.log(1 + len(one.reference_titles)))


def test_a_baseline_that_does_not_exist_is_refused(small_dataset) -> None:
    examples = examples_of("disruption-v0", str(small_dataset), max_examples=2)
    with pytest.raises(ValueError, match=r"'embeddings'.*TF-IDF"):
        run_sync(baseline_answers(examples, "embeddings"))


def test_no_answer_is_graded_as_the_floor() -> None:
    papers = sample_papers()
    envs = [make("disruption-forecast-v0", paper) for paper in papers]
    examples = Examples(envs, [], lambda: envs)
    answers = run_sync(grade(envs, ["I do not know"] * len(envs)))
    found = outcome(answers, spec("disruption-forecast-v0"), examples.prior())
    assert found.scores.answered == 0
    assert found.reward.value == -1
    # Certain of a wrong label each time: Brier score 2, and that of the prior over three equal labels is 2/3.
    assert found.main_score.value == pytest.approx(-2)


def test_texts_are_embedded_once() -> None:
    asked: list[str] = []

    def encode(texts) -> np.ndarray:
        asked.extend(texts)
        return letters(texts)

    encoder = remembering(encode)
    assert encoder(["aa", "b", "aa"]).tolist() == letters(["aa", "b", "aa"]).tolist()
    encoder(["b", "c"])
    assert asked == ["aa", "b", "c"]


def test_a_missing_package_or_model_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sentence_transformers", None)
    with pytest.raises(ValueError, match=r"scisci-gym\[embeddings\]"):
        sentence_encoder(str(tmp_path))


def test_a_model_folder_is_loaded(tmp_path) -> None:
    """A sentence-transformers model of a few thousand parameters, made here."""
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs scisci-gym[embeddings]")
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "flame", "cloud", "stone", "river"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    models = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    body = models.Transformer(str(tmp_path / "bert"))
    pooling = models.Pooling(8)
    sentence_transformers.SentenceTransformer(modules=[body, pooling], device="cpu").save(str(tmp_path / "model"))
    encoder = sentence_encoder(str(tmp_path / "model"))
    found = encoder(["flame cloud", "stone river", "flame cloud"])
    assert found.shape == (3, 8)
    assert found[0] == pytest.approx(found[2])
    assert np.abs(found[0] - found[1]).max() > 1e-4
    with pytest.raises(ValueError, match="no folder"):
        sentence_encoder(str(tmp_path / "not there"))
    with pytest.raises(ValueError, match="cannot load"):
        sentence_encoder(str(tmp_path))


def test_a_number_that_is_paid_by_rank_is_learned_by_rank(small_dataset) -> None:
    """A forecast is the training paper's number of the predicted rank; a mean of numbers would be paid like a guess."""
    examples = examples_of("cd-forecast-v1", str(small_dataset))
    trained = {format_number(float(env.truth)) for env in examples.train}
    earned = {}
    for name in ("median", "metadata only", "TF-IDF + ridge"):
        answers = run_sync(baseline_answers(examples, name))
        earned[name] = np.mean([answer.reward for answer in answers])
        # The median of an even number of papers lies between two of them.
        assert name == "median" or {answer.text for answer in answers} <= trained, name
    assert earned["TF-IDF + ridge"] > earned["median"] + 0.05
