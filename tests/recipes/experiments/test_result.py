"""The result of a study counts both orders of a pair as one question."""

import json
from pathlib import Path

import numpy as np

from scisci_gym.evaluation.ask import Answer
from scisci_gym.evaluation.comparison import arm_scores
from scisci_gym.recipes.experiments.assessment import Assessment
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.result import study_result, verdict


def test_a_study_of_pairs_resamples_pairs(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"content_hash": "0"}))
    right = np.repeat(np.random.default_rng(0).random(40) < 0.6, 2)
    expected = ["first", "second"] * 40
    guesses = [one if is_right else "" for one, is_right in zip(expected, right, strict=True)]
    answers = [Answer(str(i), *pair, "") for i, pair in enumerate(zip(expected, guesses, strict=True))]
    plan = StudyPlan(str(tmp_path), "model", (Arm("base", "base model"),), env="disruption-pairwise-v0", seeds=(0,))
    base = Assessment(answers, answers, "base", None, 0, None, None)
    row = study_result(plan, tmp_path, [base], {}).row("base")
    assert row is not None
    assert row.sampled is not None
    pairs, _ = arm_scores(expected, [guesses], ("first", "second"), block=2)
    assert (row.greedy, row.sampled) == (pairs, pairs)


def test_the_question_is_answered_with_yes_only_if_all_primary_comparisons_are_won(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"content_hash": "0"}))
    labels = ("disruptive", "consolidating", "neutral")
    expected = [labels[i % 3] for i in range(240)]

    def answers(every: int) -> list[Answer]:
        """Wrong on every so many papers."""
        said = [labels[(i + (i % every == 0)) % 3] for i in range(240)]
        return [Answer(str(i), *pair, "") for i, pair in enumerate(zip(expected, said, strict=True))]

    def answer(primary: tuple[tuple[str, str], ...]) -> str:
        arms = tuple(Arm(name, name) for name in ("good", "fair", "also_good"))
        plan = StudyPlan(str(tmp_path), "model", arms, seeds=(0,), metric="mcc", primary=primary)
        assessments = [
            Assessment(answers(every), [], arm.name, None, 0, None, None)
            for arm, every in zip(arms, (10, 3, 10), strict=True)
        ]
        result = study_result(plan, tmp_path, assessments, {})
        assert result.differences[0].metric == "mcc"
        return verdict(result)[0]

    assert answer((("good", "fair"),)).startswith("Yes: good is better than fair (+")
    assert answer((("good", "fair"), ("good", "also_good"))).startswith("Not shown: ")


def test_a_row_has_the_scores_of_labels_and_of_probabilities(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps({"content_hash": "0"}))
    labels = ("disruptive", "consolidating", "neutral")
    said = [Answer(str(i), labels[i % 3], labels[i % 2], "", probabilities=(0.5, 0.3, 0.2)) for i in range(60)]
    plan = StudyPlan(str(tmp_path), "model", (Arm("base", "base"),), seeds=(0,))
    base = Assessment(said, [], "base", None, 0, None, None)
    result = study_result(plan, tmp_path, [base], {"prior": [said, said]}, np.full(3, 1 / 3))
    for row in result.rows:
        assert set(row.scores) == {"macro_f1", "mcc", "accuracy", "auroc", "brier_skill", "ece"}
        assert row.scores["macro_f1"] == row.greedy
        assert row.scores["mcc"].value == row.mcc
    assert len(result.row("prior").by_seed) == 2  # pyright: ignore[reportOptionalMemberAccess]
