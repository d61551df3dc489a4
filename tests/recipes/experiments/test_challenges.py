"""The adversarial evaluation of a study: who is challenged, and the page about a policy that never answers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scisci_gym.envs.registry import spec
from scisci_gym.evaluation.ask import Answer, Policy
from scisci_gym.evaluation.probes.flips import flips
from scisci_gym.evaluation.records import plain
from scisci_gym.recipes.experiments import assessment
from scisci_gym.recipes.experiments.assessment import Assessment, PolicyAnswers, assess_arms
from scisci_gym.recipes.experiments.plan import Arm, StudyPlan
from scisci_gym.recipes.experiments.report import UNCHALLENGED, write_study_report
from scisci_gym.recipes.experiments.result import study_result

BASE = Arm("base", "base model")


@pytest.mark.parametrize(
    ("env", "challenged"), [("disruption-v0", True), ("disruption-pairwise-v0", False), ("novelty-v0", False)]
)
def test_answers_are_challenged_where_an_adversarial_environment_has_their_labels(
    env: str, challenged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = spec(env).labels[0]

    async def ask_policy(*_: Any, **__: Any) -> PolicyAnswers:
        return PolicyAnswers([Answer("1", label, label, "")], [])

    async def flip_report(_: Any) -> dict[str, Any]:
        return {"challengers": {}}

    async def client(*_: Any) -> None:
        return None

    monkeypatch.setattr(assessment, "ask_policy", ask_policy)
    monkeypatch.setattr(assessment, "flip_report", flip_report)
    monkeypatch.setattr(Policy, "client", client)
    plan = StudyPlan("data", "model", (BASE,), env=env, renderer_name="qwen3")
    (found,) = asyncio.run(assess_arms(plan, tmp_path, Console(quiet=True), with_probabilities=False))
    assert (found.flips is not None) == challenged


def test_the_report_says_that_a_policy_never_answered(tmp_path: Path) -> None:
    card = {"content_hash": "0", "splits": {}}
    (tmp_path / "card.json").write_text(json.dumps(card))
    labels = spec("disruption-v0").labels
    answers = [Answer(str(i), labels[i % 3], "", "Hm.") for i in range(12)]
    silent = plain(flips([None] * 6))
    report = {"env": "disruption-adversarial-v0", "challengers": {"reader": silent}}
    plan = StudyPlan(str(tmp_path), "model", (BASE,), comparisons=())
    assessed = [Assessment(answers, answers, "base", None, 0, None, report)]
    result = study_result(plan, tmp_path, assessed, {})
    json.dumps(result.to_json(), allow_nan=False)
    write_study_report(result, assessed, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Under challenge" in page
    assert f"<td>{UNCHALLENGED}" in page
    assert f"{UNCHALLENGED}: none could be parsed" in page
