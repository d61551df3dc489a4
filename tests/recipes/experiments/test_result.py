"""The result of a study counts both orders of a pair as one question."""

import json
from pathlib import Path

import numpy as np

from scisci_gym.evaluation.ask import Answer
from scisci_gym.evaluation.comparison import arm_scores
from scisci_gym.recipes.experiments.assessment import Assessment
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.result import study_result


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
