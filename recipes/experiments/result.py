"""The result of a study: scores, differences, costs, and plain sentences on whether RL gained anything."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...datasets.store import load_card
from ...envs.registry import spec
from ...evaluation.ask import Answer
from ...evaluation.bootstrap import Score
from ...evaluation.comparison import METRICS, ArmDifference, arm_difference, arm_scores, forecast_scores
from ...evaluation.metrics import score
from ...evaluation.outcome import stated
from ...evaluation.records import git_revision, plain
from ..monitoring.summary import Cost, RunSummary
from .assessment import Assessment
from .plan import StudyPlan

TIES = {
    "ties": "env/all/reward_tie_pair_rate",
    "no signal": "env/all/reward_uniform_group_rate",
    "all floor": "env/all/reward_uniform_floor_rate",
    "all best": "env/all/reward_uniform_best_rate",
}


@dataclass(frozen=True)
class ArmRow:
    """A row of the study's table.

    `greedy` and `sampled` are the plan's metric of greedy answers and of answers at temperature 1: the mean over seeds,
    with its interval over seeds and papers; a baseline is not sampled. `by_seed` has the greedy one of every seed. The
    other scores are greedy and means over seeds, `ece` and `brier_skill` those of the labels' probabilities. `scores`
    has all of them, and AUROC, with their intervals over seeds and papers. `cost` is that of one run, mean over seeds,
    without the runs that it started from; `steps` are the updates of the chosen checkpoints.
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
    scores: dict[str, Score] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """Everything that the report shows and `study.json` holds.

    `papers` counts the examples of the split, `rows` are of the baselines and then of the arms. `ties` has for every
    arm and statistic the means over seeds of the first ten steps and of the last ten, `flips` for every arm the flip
    report of each seed. `card` is that of the dataset, `revision` that of this package's repository.
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
    plan: StudyPlan,
    out: Path,
    assessments: Sequence[Assessment],
    baselines: Mapping[str, Sequence[Sequence[Answer]]],
    prior: np.ndarray | None = None,
) -> StudyResult:
    """Compare the answers of all policies, and of baselines, which have answers once or once for every seed.

    The prior, float (K,), has the shares of the labels in training; without it probabilities are not scored.
    """
    labels, block = spec(plan.env).labels, spec(plan.env).presentations
    expected = [answer.expected for answer in assessments[0].greedy]
    by_arm = {arm.name: [each for each in assessments if each.arm == arm.name] for arm in plan.arms}
    answered: dict[str, Sequence[Sequence[Answer]]] = {**baselines}
    answered |= {name: [each.greedy for each in members] for name, members in by_arm.items()}
    predictions = {name: [[one.predicted for one in each] for each in answers] for name, answers in answered.items()}
    runs = {arm.name: [RunSummary.of(plan.folder(out, arm, seed)) for seed in plan.seeds] for arm in plan.trained}
    rows = []
    for name, guesses in predictions.items():
        members = by_arm.get(name, [])
        scores = [score(expected, answers, labels, block=block) for answers in guesses]
        drawn = [[answer.predicted for answer in each.sampled] for each in members]
        calibrated = [each.calibrated for each in members if each.calibrated is not None]
        greedy, by_seed = arm_scores(expected, guesses, labels, block, plan.metric)
        intervals = {metric: arm_scores(expected, guesses, labels, block, metric)[0] for metric in METRICS}
        row = ArmRow(
            name,
            plan.arm(name).title if members else name,
            greedy=greedy,
            sampled=arm_scores(expected, drawn, labels, block, plan.metric)[0] if any(drawn) else None,
            by_seed=by_seed,
            accuracy=float(np.mean([each.accuracy.value for each in scores])),
            mcc=float(np.mean([each.mcc.value for each in scores])),
            ece=_mean([each.ece.value for each in calibrated]),
            brier_skill=_mean([each.brier_skill.value for each in calibrated if each.brier_skill is not None]),
            cost=_mean_cost(runs.get(name, [])),
            steps=tuple(each.step for each in members if each.seed is not None),
            scores=intervals | ({} if prior is None else _forecasts(answered[name], labels, prior, block)),
        )
        rows.append(row)
    return StudyResult(
        plan,
        len(expected),
        rows,
        differences=[
            arm_difference((one, other), expected, predictions[one], predictions[other], labels, block, plan.metric)
            for one, other in dict.fromkeys((*plan.primary, *plan.comparisons))
            if one in predictions and other in predictions
        ],
        ties={arm.name: tie_statistics(runs[arm.name]) for arm in plan.arms if arm.recipe == "rl"},
        flips={name: [each.flips for each in members if each.flips] for name, members in by_arm.items()},
        card=load_card(plan.dataset),
        revision=git_revision(),
    )


def _forecasts(
    by_seed: Sequence[Sequence[Answer]], labels: Sequence[str], prior: np.ndarray, block: int
) -> dict[str, Score]:
    found = [stated(answers, labels) for answers in by_seed]
    probabilities = [each for each, _ in found if each is not None]
    return forecast_scores(probabilities, found[0][1], prior, block) if len(probabilities) == len(found) else {}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _mean_cost(runs: Sequence[RunSummary]) -> Cost | None:
    if not runs:
        return None
    *tokens, seconds = np.mean([astuple(run.cost) for run in runs], axis=0).tolist()
    return Cost(*map(round, tokens), seconds=seconds)


def tie_statistics(runs: Sequence[RunSummary]) -> dict[str, tuple[float, float]]:
    """Shares of RL's groups by how far their rewards differ, in the first and the last ten steps; means over runs."""
    statistics: dict[str, tuple[float, float]] = {}
    for name, key in TIES.items():
        ends = [ends for run in runs if (ends := run.ends(key)) is not None]
        if ends and len(ends) == len(runs):
            first, last = np.mean(ends, axis=0).tolist()
            statistics[name] = (first, last)
    return statistics


def compared(difference: ArmDifference) -> str:
    """The verdict of a comparison, as it goes between the names of the two."""
    return f"{difference.verdict} {'than' if difference.difference.sign else 'from'}"


def verdict(result: StudyResult) -> list[str]:
    """Plain sentences on the question, by fixed rules (see `ArmDifference.verdict`). The answer comes first."""
    return [*_answer(result), *(_said(result, each) for each in result.differences), *_against_best(result)]


def findings(result: StudyResult) -> list[str]:
    """Of `verdict`, what a page says before the table of all comparisons: the answer, and the differences that are
    clear."""
    clear = [_said(result, each) for each in result.differences if each.verdict in {"better", "worse"}]
    return [*_answer(result), *clear, *_against_best(result)]


def _answer(result: StudyResult) -> list[str]:
    """The answer to the study's question; nothing where its arms do not ask one.

    The question is that of the plan's primary comparisons if there are any and all were made, and else whether RL beat
    SFT.
    """
    made = {(each.first, each.second): each for each in result.differences}
    primary = [made[pair] for pair in result.plan.primary if pair in made]
    if primary and len(primary) == len(result.plan.primary):
        titles, name = {row.name: row.title for row in result.rows}, METRICS[result.plan.metric][0]
        parts = [
            f"{titles[each.first]} is {compared(each)} {titles[each.second]} ({each.difference.signed} {name})"
            for each in primary
        ]
        return [
            f"{'Yes' if all(each.difference.sign > 0 for each in primary) else 'Not shown'}: {' and '.join(parts)}."
        ]
    against_sft = {each.first: each for each in result.differences if each.second == "sft"}
    subjects = {"rl": ("RL by itself", "SFT"), "sft_rl": ("RL on top of SFT", "SFT alone")}
    shown = {name: against_sft[name] for name in subjects if name in against_sft}
    if not shown:
        return []
    parts = [f"{subjects[name][0]} was {compared(each)} {subjects[name][1]}" for name, each in shown.items()]
    beat = "beat" if any(each.verdict == "better" for each in shown.values()) else "did not beat"
    return [f"RL {beat} SFT here: {' and '.join(parts)}."]


def _said(result: StudyResult, difference: ArmDifference) -> str:
    """A comparison of two arms, with its interval and by seed."""
    first, second = result.row(difference.first), result.row(difference.second)
    assert first is not None
    assert second is not None
    by_seed = ", ".join(f"{value:+.3f}" for value in difference.by_seed)
    return (
        f"{first.title} ({first.greedy.value:.3f}) is {compared(difference)} {second.title} "
        f"({second.greedy.value:.3f}): difference {difference.difference.signed}; by seed {by_seed}."
    )


def _against_best(result: StudyResult) -> list[str]:
    """How much of the best reachable score RL reached, where that score is known."""
    learned = result.row("rl")
    if not learned or not result.card.get("ceiling"):
        return []
    best = result.card["ceiling"][result.plan.split]["macro_f1"]
    share = f"{learned.scores['macro_f1'].value / best:.1%}"
    return [f"A perfect reader of this corpus reaches macro-F1 {best:.3f}; {learned.title} reaches {share} of it."]
