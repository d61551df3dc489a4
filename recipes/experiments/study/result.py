"""What a study came to: scores, differences, and a plain sentence on whether RL bought anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ....datasets.store import load_card
from ....envs.registry import spec
from ....evaluation.ask import Answer
from ....evaluation.bootstrap import Score
from ....evaluation.comparison import ArmDifference, arm_difference, arm_scores
from ....evaluation.metrics import score
from ....evaluation.records import git_revision, plain
from ...monitoring.metrics import read_metrics
from .assessment import Assessed
from .cost import Cost, cost_of
from .plan import Arm, StudyPlan, run_folder

TIES = {
    "ties": "env/all/reward_tie_pair_rate",
    "no signal": "env/all/reward_uniform_group_rate",
    "all floor": "env/all/reward_uniform_floor_rate",
    "all best": "env/all/reward_uniform_best_rate",
}
ENDS = 10
# The comparisons that the study is made for, as far as its arms are there: RL against SFT, from either start; what RL
# adds to SFT; and each against the linear baseline.
PAIRS = (("rl", "sft"), ("sft_rl", "sft"), ("dpo", "sft"), ("sft_rl", "rl"))
LINEAR = "TF-IDF + logistic"


@dataclass(frozen=True)
class ArmRow:
    """A line of the study's table.

    Parameters
    ----------
    name, title : str
    greedy, sampled : Score
        Macro-F1, mean over seeds with its interval over seeds and papers; greedy, and at temperature 1. A baseline is
        not sampled.
    by_seed : tuple of float
        Greedy macro-F1 of every seed.
    accuracy, mcc : float
        Greedy, mean over seeds.
    ece, brier_skill : float or None
        Calibration of the labels' probabilities, mean over seeds.
    cost : Cost or None
        Of one run, mean over seeds, without the runs that it started from.
    steps : tuple of int
        Updates of the chosen checkpoints.
    """

    name: str
    title: str
    greedy: Score
    sampled: Score | None
    by_seed: tuple[float, ...]
    accuracy: float
    mcc: float
    ece: float | None
    brier_skill: float | None
    cost: Cost | None
    steps: tuple[int, ...]


@dataclass(frozen=True)
class StudyResult:
    """Everything the report shows, and `study.json` holds.

    Parameters
    ----------
    plan : StudyPlan
    papers : int
        Examples of the split.
    rows : list of ArmRow
        Baselines, then arms.
    differences : list of ArmDifference
    ties : dict
        Arm -> name -> (mean over the first ten steps, over the last ten), means over seeds.
    flips : dict
        Arm -> flip report of each seed.
    card : dict
        Of the dataset.
    revision : str or None
    """

    plan: StudyPlan
    papers: int
    rows: list[ArmRow]
    differences: list[ArmDifference]
    ties: dict[str, dict[str, tuple[float, float]]]
    flips: dict[str, list[dict[str, Any]]]
    card: dict[str, Any]
    revision: str | None

    def row(self, name: str) -> ArmRow | None:
        """The line of an arm or baseline; None if it is not part of the study."""
        return next((row for row in self.rows if row.name == name), None)

    def to_json(self) -> dict[str, Any]:
        return plain(
            {
                "plan": self.plan.to_json(),
                "dataset": {"content_hash": self.card["content_hash"], "command": self.card.get("command")},
                "ceiling": self.card.get("ceiling"),
                "revision": self.revision,
                "papers": self.papers,
                "rows": [asdict(row) for row in self.rows],
                "differences": [difference.to_json() for difference in self.differences],
                "ties": self.ties,
                "flips": self.flips,
                "verdict": verdict(self),
            }
        )


def study_result(
    plan: StudyPlan, out: Path, assessed: Sequence[Assessed], baselines: Mapping[str, Sequence[Answer]]
) -> StudyResult:
    """Put the answers of all policies together."""
    labels = spec(plan.env).labels
    predictions = {name: [[answer.predicted for answer in answers]] for name, answers in baselines.items()}
    for found in assessed:
        predictions.setdefault(found.arm, []).append([answer.predicted for answer in found.greedy])
    expected = [answer.expected for answer in assessed[0].greedy]
    rows = [_baseline_row(name, expected, given, labels) for name, given in predictions.items() if name in baselines]
    rows += [_arm_row(plan, out, arm, [f for f in assessed if f.arm == arm.name], labels) for arm in plan.arms]
    wanted = [*PAIRS, *((arm.name, LINEAR) for arm in plan.arms if arm.name in ("sft", "rl", "sft_rl", "dpo"))]
    differences = [
        arm_difference((first, second), expected, predictions[first], predictions[second], labels)
        for first, second in wanted
        if first in predictions and second in predictions
    ]
    return StudyResult(
        plan,
        len(expected),
        rows,
        differences,
        {arm.name: tie_statistics([run_folder(out, arm, seed) for seed in plan.seeds]) for arm in _rl_arms(plan)},
        {arm.name: [f.flips for f in assessed if f.arm == arm.name and f.flips] for arm in plan.arms},
        load_card(plan.dataset),
        git_revision(),
    )


def _rl_arms(plan: StudyPlan) -> list[Arm]:
    return [arm for arm in plan.arms if arm.recipe == "rl"]


def _baseline_row(name: str, expected: Sequence[str], given: Sequence[Sequence[str]], labels: Sequence[str]) -> ArmRow:
    score, by_seed = arm_scores(expected, given, labels)
    return ArmRow(name, name, score, None, by_seed, *_accuracy_and_mcc(expected, given, labels), None, None, None, ())


def _arm_row(plan: StudyPlan, out: Path, arm: Arm, found: Sequence[Assessed], labels: Sequence[str]) -> ArmRow:
    expected = [answer.expected for answer in found[0].greedy]
    greedy, by_seed = arm_scores(expected, [[a.predicted for a in f.greedy] for f in found], labels)
    sampled, _ = arm_scores(expected, [[a.predicted for a in f.sampled] for f in found], labels)
    calibrated = [f.calibrated for f in found if f.calibrated is not None]
    skills = [c.brier_skill.value for c in calibrated if c.brier_skill is not None]
    costs = [cost_of(run_folder(out, arm, seed)) for seed in plan.seeds] if arm.recipe else []
    return ArmRow(
        arm.name,
        arm.title,
        greedy,
        sampled,
        by_seed,
        *_accuracy_and_mcc(expected, [[a.predicted for a in f.greedy] for f in found], labels),
        float(np.mean([c.ece.value for c in calibrated])) if calibrated else None,
        float(np.mean(skills)) if skills else None,
        _mean_cost(costs) if costs else None,
        tuple(f.step for f in found if f.seed is not None),
    )


def _accuracy_and_mcc(
    expected: Sequence[str], given: Sequence[Sequence[str]], labels: Sequence[str]
) -> tuple[float, float]:
    found = [score(expected, answers, labels) for answers in given]
    return float(np.mean([s.accuracy.value for s in found])), float(np.mean([s.mcc.value for s in found]))


def _mean_cost(costs: Sequence[Cost]) -> Cost:
    def mean(name: str) -> float:
        return float(np.mean([getattr(cost, name) for cost in costs]))

    return Cost(round(mean("trained")), round(mean("sampled")), round(mean("read")), mean("seconds"))


def tie_statistics(folders: Sequence[Path]) -> dict[str, tuple[float, float]]:
    """How much of RL's groups taught something, at the beginning and at the end of training; means over runs."""
    found: dict[str, tuple[float, float]] = {}
    for name, key in TIES.items():
        values = [[row[key] for row in read_metrics(folder) if key in row] for folder in folders]
        if all(values):
            first = float(np.mean([np.mean(run[:ENDS]) for run in values]))
            found[name] = (first, float(np.mean([np.mean(run[-ENDS:]) for run in values])))
    return found


def headline(result: StudyResult) -> str | None:
    """The answer to the question in one sentence; None where the study has no RL arm or no SFT arm."""
    found = {d.first: d.verdict for d in result.differences if d.second == "sft" and d.first in ("rl", "sft_rl")}
    if not found:
        return None
    said = []
    if "rl" in found:
        said.append(f"RL by itself was {_against(found['rl'])} SFT")
    if "sft_rl" in found:
        said.append(f"RL on top of SFT was {_against(found['sft_rl'])} SFT alone")
    sentence = " and ".join(said)
    return f"{'RL beat SFT here' if 'better' in found.values() else 'RL did not beat SFT here'}: {sentence}."


def _against(verdict: str) -> str:
    return {"better": "better than", "worse": "worse than"}.get(verdict, "not clearly different from")


def verdict(result: StudyResult) -> list[str]:
    """Plain sentences on the question, by fixed rules: see `ArmDifference.verdict`. The answer comes first."""
    first_of_all = headline(result)
    sentences = [first_of_all] if first_of_all else []
    for difference in result.differences:
        first, second = result.row(difference.first), result.row(difference.second)
        if first is None or second is None:
            continue
        how = _against(difference.verdict)
        seeds = ", ".join(f"{value:+.3f}" for value in difference.by_seed)
        sentences.append(
            f"{first.title} ({first.greedy.value:.3f}) is {how} {second.title} ({second.greedy.value:.3f}): difference "
            f"{difference.difference.signed}; by seed {seeds}."
        )
    ceiling = result.card.get("ceiling")
    learned = result.row("rl")
    if ceiling and learned:
        best = ceiling[result.plan.split]["macro_f1"]
        sentences.append(
            f"A perfect reader of this corpus reaches {best:.3f}; {learned.title} reaches "
            f"{learned.greedy.value / best:.1%} of it."
        )
    return sentences
