"""Scores against scikit-learn, by hand, and their intervals in simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, matthews_corrcoef
from sklearn.utils.class_weight import compute_sample_weight

from scisci_gym.evaluation.metrics import accuracy, balanced, macro_f1, mcc, score

LABELS = ["a", "b", "c"]


@pytest.mark.filterwarnings("ignore:y_pred contains classes:UserWarning")
@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from([*LABELS, ""])), min_size=1, max_size=60))
def test_equal_to_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    ours = score(truth, predicted, LABELS)
    assert ours.accuracy.value == pytest.approx(accuracy_score(truth, predicted))
    theirs = f1_score(truth, predicted, labels=LABELS, average="macro", zero_division=0)
    assert ours.macro_f1.value == pytest.approx(theirs)
    assert ours.mcc.value == pytest.approx(matthews_corrcoef(truth, predicted))
    for one in (ours.accuracy, ours.macro_f1):
        assert 0 <= one.low <= one.high <= 1
    weights = compute_sample_weight("balanced", truth)
    assert ours.balanced.accuracy.value == pytest.approx(balanced_accuracy_score(truth, predicted))
    theirs = f1_score(truth, predicted, labels=LABELS, average="macro", zero_division=0, sample_weight=weights)
    assert ours.balanced.macro_f1.value == pytest.approx(theirs)
    theirs = matthews_corrcoef(truth, predicted, sample_weight=weights)
    assert ours.balanced.mcc.value == pytest.approx(theirs, abs=1e-5)


def test_by_hand() -> None:
    ours = score(["a", "a", "b", "c"], ["a", "b", "b", ""], LABELS)
    assert ours.confusion == [[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    assert ours.accuracy.value == 0.5
    assert ours.answered == 0.75
    # F1: a = 2/(2+1), b = 2/(1+2), c = 0.
    assert ours.macro_f1.value == pytest.approx((2 / 3 + 2 / 3) / 3)


def test_a_constant_answer_gets_what_theory_says() -> None:
    truth = LABELS * 50
    ours = score(truth, ["a"] * 150, LABELS)
    assert ours.macro_f1.value == pytest.approx(1 / 6)
    assert ours.mcc.value == 0


@pytest.mark.slow
def test_intervals_cover_at_the_stated_rate() -> None:
    """Uneven classes, answers with known probabilities: each interval holds the score of endless answers about 95 times
    of 100."""
    shares = np.array([0.5, 0.3, 0.2])
    given = np.array([[0.7, 0.2, 0.1, 0.0], [0.2, 0.6, 0.1, 0.1], [0.3, 0.2, 0.5, 0.0]])
    endless = (shares[:, None] * given)[None]
    truths = {
        "accuracy": accuracy(endless)[0],
        "macro_f1": macro_f1(endless)[0],
        "mcc": mcc(endless)[0],
        "balanced_accuracy": accuracy(balanced(endless))[0],
    }
    rng = np.random.default_rng(0)
    trials, covered = 400, dict.fromkeys(truths, 0)
    for trial in range(trials):
        counts = rng.multinomial(300, endless.ravel())
        cells = [(LABELS[cell // 4], [*LABELS, ""][cell % 4]) for cell in np.repeat(np.arange(12), counts)]
        truth, predicted = (list(column) for column in zip(*cells, strict=True))
        found = score(truth, predicted, LABELS, seed=trial)
        scores = (found.accuracy, found.macro_f1, found.mcc, found.balanced.accuracy)
        for name, one in zip(truths, scores, strict=True):
            covered[name] += one.low <= truths[name] <= one.high
    assert all(0.92 <= count / trials <= 0.98 for count in covered.values()), covered


def test_bootstrap_equals_resampling_examples() -> None:
    """The multinomial over cells is the same distribution as drawing examples with replacement."""
    rng = np.random.default_rng(1)
    truth = rng.choice(LABELS, 150)
    predicted = np.where(rng.random(150) < 0.6, truth, rng.choice(LABELS, 150))
    draws = rng.integers(150, size=(2000, 150))
    values = [f1_score(truth[d], predicted[d], labels=LABELS, average="macro", zero_division=0) for d in draws[:600]]
    low, high = np.quantile(values, [0.025, 0.975])
    ours = score(truth.tolist(), predicted.tolist(), LABELS).macro_f1
    assert ours.low == pytest.approx(low, abs=0.015)
    assert ours.high == pytest.approx(high, abs=0.015)


def test_refuses_what_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="one length above 0"):
        score([], [], LABELS)
    with pytest.raises(ValueError, match="'d'"):
        score(["d"], ["a"], LABELS)
