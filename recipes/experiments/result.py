"""The result of a study: scores, differences, costs, and plain sentences on whether RL gained anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ...datasets.store import load_card
from ...envs.registry import spec
from ...evaluation.ask import Answer
from ...evaluation.bootstrap import Score
from ...evaluation.comparison import ArmDifference, arm_difference, arm_scores
from ...evaluation.metrics import score
from ...evaluation.records import git_revision, plain
from ..monitoring.metrics import finite, read_metrics
from ..monitoring.record import read_run_record
from .assessment import Assessment
from .plan import Arm, StudyPlan

TIES = {
    "ties": "env/all/reward_tie_pair_rate",
    "no signal": "env/all/reward_uniform_group_rate",
    "all floor": "env/all/reward_uniform_floor_rate",
    "all best": "env/all/reward_uniform_best_rate",
}
ENDS = 10
LINEAR = "TF-IDF + logistic"
# The comparisons that the study is made for, where it has these arms: RL against SFT, from either start; what RL adds
# to SFT; and each against the linear baseline.
PAIRS = (("rl", "sft"), ("sft_rl", "sft"), ("dpo", "sft"), ("sft_rl", "rl"))
AGAINST_LINEAR = ("sft", "rl", "sft_rl", "dpo")


@dataclass(frozen=True)
class Cost:
    """Tokens and time of one run, from its own metrics.

    Parameters
    ----------
    trained : int
        Tokens that went through forward and backward passes, prompts included.
    sampled : int
        Tokens that were generated for training. Evaluations count nowhere.
    read : int
        Prompt tokens read while sampling.
    seconds : float
        From start to end, with validation.
    """

    trained: int
    sampled: int
    read: int
    seconds: float


def cost_of(folder: Path) -> Cost:
    """Cost of the run in `folder`."""
    rows = read_metrics(folder)
    sampled, read, supervised = (
        int(sum(value for _, value in finite(rows, name)))
        for name in ("env/all/total_ac_tokens", "env/all/total_ob_tokens", "num_tokens")
    )
    # RL trains on what was read and sampled; groups without signal go through the passes all the same.
    return Cost(supervised or sampled + read, sampled, read, float(read_run_record(folder).get("seconds", 0.0)))


@dataclass(frozen=True)
class ArmRow:
    """A row of the study's table.

    Parameters
    ----------
    name, title : str
    greedy, sampled : Score
        Macro-F1 of greedy answers and of answers at temperature 1: mean over seeds, with its interval over seeds and
        papers. A baseline is not sampled.
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
    ece: float | None = None
    brier_skill: float | None = None
    cost: Cost | None = None
    steps: tuple[int, ...] = ()


@dataclass(frozen=True)
class StudyResult:
    """Everything that the report shows and `study.json` holds.

    Parameters
    ----------
    plan : StudyPlan
    papers : int
        Examples of the split.
    rows : list of ArmRow
        Baselines, then arms.
    differences : list of ArmDifference
    ties : dict
        Arm -> name -> means over seeds, of the first ten steps and of the last ten.
    flips : dict
        Arm -> flip report of each seed.
    card : dict
        Of the dataset.
    revision : str or None
        Of this package's repository.
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
        """The row of an arm or baseline; None if it is not part of the study."""
        return next((row for row in self.rows if row.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
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
    plan: StudyPlan, out: Path, assessments: Sequence[Assessment], baselines: Mapping[str, Sequence[Answer]]
) -> StudyResult:
    """Compare the answers of all policies and baselines."""
    labels = spec(plan.env).labels
    expected = [answer.expected for answer in assessments[0].greedy]
    predictions = {name: [[answer.predicted for answer in answers]] for name, answers in baselines.items()}
    by_arm = {arm.name: [each for each in assessments if each.arm == arm.name] for arm in plan.arms}
    predictions |= {name: [each.predictions for each in members] for name, members in by_arm.items()}
    rows = [ArmRow(name, name, **_scores(expected, predictions[name], labels)) for name in baselines]
    for arm in plan.arms:
        scores = _scores(expected, predictions[arm.name], labels, sampled=by_arm[arm.name])
        rows.append(ArmRow(arm.name, arm.title, **scores, **_training(plan, out, arm, by_arm[arm.name])))
    pairs = [*PAIRS, *((arm.name, LINEAR) for arm in plan.arms if arm.name in AGAINST_LINEAR)]
    return StudyResult(
        plan,
        len(expected),
        rows,
        differences=[
            arm_difference((first, second), expected, predictions[first], predictions[second], labels)
            for first, second in pairs
            if first in predictions and second in predictions
        ],
        ties={
            arm.name: tie_statistics([plan.folder(out, arm, seed) for seed in plan.seeds])
            for arm in plan.arms
            if arm.recipe == "rl"
        },
        flips={name: [each.flips for each in members if each.flips] for name, members in by_arm.items()},
        card=load_card(plan.dataset),
        revision=git_revision(),
    )


def _scores(
    expected: Sequence[str],
    predictions: Sequence[Sequence[str]],
    labels: Sequence[str],
    sampled: Sequence[Assessment] = (),
) -> dict[str, Any]:
    greedy, by_seed = arm_scores(expected, predictions, labels)
    scores = [score(expected, answers, labels) for answers in predictions]
    drawn = [[answer.predicted for answer in each.sampled] for each in sampled]
    return {
        "greedy": greedy,
        "sampled": arm_scores(expected, drawn, labels)[0] if drawn else None,
        "by_seed": by_seed,
        "accuracy": _mean([each.accuracy.value for each in scores]),
        "mcc": _mean([each.mcc.value for each in scores]),
    }


def _training(plan: StudyPlan, out: Path, arm: Arm, members: Sequence[Assessment]) -> dict[str, Any]:
    calibrated = [each.calibrated for each in members if each.calibrated is not None]
    costs = [astuple(cost_of(plan.folder(out, arm, seed))) for seed in plan.seeds] if arm.recipe else []
    cost = None
    if costs:
        *tokens, seconds = np.mean(costs, axis=0).tolist()
        cost = Cost(*map(round, tokens), seconds=seconds)
    return {
        "ece": _mean([each.ece.value for each in calibrated]),
        "brier_skill": _mean([each.brier_skill.value for each in calibrated if each.brier_skill is not None]),
        "cost": cost,
        "steps": tuple(each.step for each in members if each.seed is not None),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def tie_statistics(folders: Sequence[Path]) -> dict[str, tuple[float, float]]:
    """Shares of RL's groups by how far their rewards differ, in the first and the last ten steps; means over runs."""
    statistics: dict[str, tuple[float, float]] = {}
    for name, key in TIES.items():
        values = [[row[key] for row in read_metrics(folder) if key in row] for folder in folders]
        if all(values):
            first = float(np.mean([np.mean(run[:ENDS]) for run in values]))
            statistics[name] = (first, float(np.mean([np.mean(run[-ENDS:]) for run in values])))
    return statistics


def compared(difference: ArmDifference) -> str:
    """The verdict of a comparison, as it goes between the names of the two."""
    return f"{difference.verdict} {'than' if difference.difference.sign else 'from'}"


def verdict(result: StudyResult) -> list[str]:
    """Plain sentences on the question, by fixed rules (see `ArmDifference.verdict`). The answer comes first."""
    against_sft = {each.first: each for each in result.differences if each.second == "sft"}
    parts = []
    if "rl" in against_sft:
        parts.append(f"RL by itself was {compared(against_sft['rl'])} SFT")
    if "sft_rl" in against_sft:
        parts.append(f"RL on top of SFT was {compared(against_sft['sft_rl'])} SFT alone")
    sentences = []
    if parts:
        better = any(against_sft[name].verdict == "better" for name in ("rl", "sft_rl") if name in against_sft)
        sentences.append(f"{'RL beat SFT here' if better else 'RL did not beat SFT here'}: {' and '.join(parts)}.")
    for difference in result.differences:
        first, second = result.row(difference.first), result.row(difference.second)
        assert first is not None
        assert second is not None
        by_seed = ", ".join(f"{value:+.3f}" for value in difference.by_seed)
        sentences.append(
            f"{first.title} ({first.greedy.value:.3f}) is {compared(difference)} {second.title} "
            f"({second.greedy.value:.3f}): difference {difference.difference.signed}; by seed {by_seed}."
        )
    learned = result.row("rl")
    if learned and result.card.get("ceiling"):
        best = result.card["ceiling"][result.plan.split]["macro_f1"]
        share = f"{learned.greedy.value / best:.1%}"
        sentences.append(f"A perfect reader of this corpus reaches {best:.3f}; {learned.title} reaches {share} of it.")
    return sentences


def terminal_table(title: str, headings: Sequence[str], no_wrap: bool = False) -> Table:
    """A table of these columns, without rows and without lines."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=no_wrap, header_style="dim")
    return table


def study_table(result: StudyResult) -> Table:
    """The arms side by side, for a terminal."""
    seeds = len(result.plan.seeds)
    counts = f"{result.papers:,} papers, {seeds} seed{'s' * (seeds > 1)}"
    title = f"{result.plan.split} split, {counts}: macro-F1 [95 % interval]"
    table = terminal_table(title, ("", "greedy", "by seed", "sampled", "MCC"))
    for row in result.rows:
        table.add_row(
            row.title,
            str(row.greedy),
            " ".join(f"{value:.3f}" for value in row.by_seed) if len(row.by_seed) > 1 else "",
            f"{row.sampled.value:.3f}" if row.sampled else "",
            f"{row.mcc:.3f}",
            style="bold" if "RL" in row.title else None,
        )
    return table
