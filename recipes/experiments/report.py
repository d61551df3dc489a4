"""The report of a study: one page, and a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table as TerminalTable

from ...envs.registry import spec
from ...evaluation.comparison import FORECAST_SCORES, METRICS
from ...evaluation.render.pictures import curves_svg, reliability_svg, scores_svg
from ..monitoring.metrics import read_metrics
from ..reporting.experiment_page import BEST, Section, Table, write_experiment_page
from .assessment import Assessment
from .plan import StudyPlan
from .result import TIES, StudyResult, findings

CURVES = (
    ("validation/macro_f1", "Greedy macro-F1 on validation papers", (0, 1)),
    ("env/all/reward/total", "Mean reward of training rollouts", (-1.05, 1.05)),
    ("env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", (0, 1)),
    ("optim/entropy", "Entropy (nats per token)", None),
    ("kl_policy_base", "KL to the reference", None),
    ("train_mean_nll", "SFT loss (nats per token)", None),
)
QUESTION = "What does reinforcement learning gain over supervised learning?"
CASES = 6
# Beside the metric of the plan.
OTHERS = {"accuracy": "accuracy", "macro_f1": "macro-F1", "mcc": "MCC", **FORECAST_SCORES}
FLIP_HEADINGS = ("", "challenge", "episodes", "right before", "right after", "right given up", "wrong corrected")
UNCHALLENGED = "no first answer"
"""The kind of challenge in the row of a policy none of whose first answers could be parsed: none was challenged."""
FLIP_COLUMNS = ("before", "after", "right_to_wrong", "wrong_to_right")


def write_study_report(result: StudyResult, assessments: Sequence[Assessment], out: Path) -> None:
    """Write `report.html` into the study's folder."""
    plan, card, titles = result.plan, result.card, {row.name: row.title for row in result.rows}
    runs = {
        arm.title: [read_metrics(plan.folder(out, arm, seed)) for seed in plan.seeds]
        for arm in plan.trained
        if arm.name != "format"
    }
    logged = {key for seeds in runs.values() for rows in seeds for row in rows for key in row}
    first_seed = [each for each in assessments if each.seed in (None, plan.seeds[0])]
    labels = spec(plan.env).labels
    asked = sorted({report["env"] for reports in result.flips.values() for report in reports})
    seeds = ", ".join(map(str, plan.seeds))
    alone = (
        "; with one seed it is over papers alone and says nothing about another seed" if len(plan.seeds) == 1 else ""
    )
    sections = [
        Section(
            "Scores",
            [score_table(result)],
            "Mean over seeds with a 95 % interval over seeds and papers. An answer that cannot be parsed is wrong. "
            "AUROC, Brier skill (against the class prior of training) and ECE are of the probabilities that the policy "
            "gives to the labels' answers.",
        ),
        Section("Paired comparisons", [comparison_table(result)]),
        Section(
            "Learning",
            pictures=[curves_svg(runs, key, title, limits=limits) for key, title, limits in CURVES if key in logged],
            legend=list(runs),
            note="Lines are means over seeds, bands reach from the lowest to the highest seed.",
        ),
        Section(
            "Ties: how many groups taught something",
            [
                Table(
                    ("", "tied pairs", "no signal", "all at the floor", "all at the best"),
                    [
                        [titles[arm], *("{:.2f} → {:.2f}".format(*ties[name]) if name in ties else "" for name in TIES)]
                        for arm, ties in result.ties.items()
                    ],
                )
            ],
            "Means over the first and the last ten steps.",
        ),
        Section(
            "Cost",
            [
                Table(
                    ("", "tokens trained on", "tokens sampled", "prompt tokens read", "seconds"),
                    [
                        [row.title, *(f"{n:,.0f}" for n in (cost.trained, cost.sampled, cost.read, cost.seconds))]
                        for row in result.rows
                        if (cost := row.cost) is not None
                    ],
                )
            ],
            "Of one run, without the run that it started from; seconds include validation and whatever else the "
            "machine did.",
        ),
        Section(
            "Calibration",
            pictures=[reliability_svg(titles[each.arm], each.calibrated) for each in first_seed if each.calibrated],
            note="First seed. Bars are 95 % Wilson intervals.",
        ),
        Section(
            "Under challenge",
            [Table(FLIP_HEADINGS, flip_rows({titles[arm]: reports for arm, reports in result.flips.items()}))],
            f"{' and '.join(asked)}, where a reader of the training papers challenges: truth argues for the true "
            'label, wrong for another wrong one, control only asks "Are you sure?". The policies were not trained on '
            f"conversations; an answer that cannot be parsed is wrong. {UNCHALLENGED}: none could be parsed, so none "
            "was challenged.",
        ),
        Section(
            "Confusion",
            [_confusion(titles[each.arm], each, labels) for each in first_seed],
            "First seed, greedy answers.",
        ),
        *_disagreements(first_seed, titles),
        Section(
            "Plan: arms and their options",
            [
                Table(
                    ("option", "value"),
                    [
                        ["recipe", arm.recipe or "none: the policy as it is"],
                        ["starts from", arm.start or "the base model"],
                        *arm.options.items(),
                    ],
                    arm.title,
                    "text",
                )
                for arm in plan.arms
            ],
            f"Revision {result.revision or 'unknown'}; dataset hash {card['content_hash']}; the data were built by: "
            f"{card.get('command')}",
            folded=True,
        ),
    ]
    write_experiment_page(
        out / "report.html",
        "scisci-gym study",
        QUESTION,
        f"{plan.env} on {plan.dataset}, model {plan.model_name}, seeds {seeds}, {result.papers:,} papers of the "
        f"{plan.split} split. Every arm saw the same frozen splits and prompts; its checkpoint was chosen on "
        "validation papers.",
        findings(result),
        sections,
        'It says "better" or "worse" where the 95 % interval of the difference excludes 0: a t interval over seeds, '
        f"widened by the bootstrap variance of the papers (Banerjee 1960){alone}. {metric_name(plan)}, greedy answers.",
        scores_picture(result),
    )


def metric_name(plan: StudyPlan) -> str:
    """Name of the score that a study compares arms in."""
    return METRICS[plan.metric][0]


def score_table(result: StudyResult) -> Table:
    """A row for every baseline and arm: the plan's metric with its interval and by seed, and the other scores."""
    name, others = metric_name(result.plan), {key: said for key, said in OTHERS.items() if key != result.plan.metric}
    rows: list[list[Any]] = []
    for row in result.rows:
        by_seed = " ".join(f"{value:.3f}" for value in row.by_seed) if len(row.by_seed) > 1 else ""
        scores = [f"{row.scores[key].value:.3f}" if key in row.scores else "" for key in others]
        rows.append([row.title, row.greedy, by_seed, row.sampled, *scores, ", ".join(map(str, row.steps))])
    if ceiling := result.card.get("ceiling"):
        best = {key: f"{value:.3f}" for key, value in ceiling[result.plan.split].items()}
        rows.append([BEST, best.get(result.plan.metric, ""), "", "", *(best.get(key, "") for key in others), ""])
    headings = ("", f"{name}, greedy", "by seed", f"{name}, sampled", *others.values(), "step chosen")
    return Table(headings, rows, style="scores")


def comparison_table(result: StudyResult, title: str = "") -> Table:
    """A row for every comparison, with its interval, the verdict, and by seed."""
    rows, titles = [], {row.name: row.title for row in result.rows}
    for each in result.differences:
        by_seed = " ".join(f"{value:+.3f}" for value in each.by_seed)
        p_values = " ".join(f"{value:.2g}" for value in each.mcnemar_p)
        rows.append([titles[each.first], titles[each.second], each.difference, each.verdict, by_seed, p_values])
    difference = f"difference in {metric_name(result.plan)}"
    return Table(("first", "second", difference, "first is", "by seed", "McNemar p by seed"), rows, title)


def _confusion(title: str, assessment: Assessment, labels: Sequence[str]) -> Table:
    pairs = Counter((a.expected, a.predicted if a.predicted in labels else "") for a in assessment.greedy)
    rows = [[truth, *(pairs[truth, guess] for guess in (*labels, ""))] for truth in labels]
    return Table(["truth", *labels, "no label"], rows, title)


def flip_rows(flips: Mapping[str, Sequence[dict[str, Any]]]) -> list[list[Any]]:
    """Rows of title, kind of challenge, episodes, and what happened as means over seeds, from `flip_report`s.

    A policy that was never challenged has one row of the kind `UNCHALLENGED`.
    """
    table = []
    for title, reports in flips.items():
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for report in reports:
            for challenged in report["challengers"].values():
                for kind, row in challenged["rows"].items():
                    by_kind.setdefault(kind, []).append(row)
        for kind, rows in by_kind.items():
            values = ([v for row in rows if (v := row[name]["value"]) is not None] for name in FLIP_COLUMNS)
            cells = (f"{sum(defined) / len(defined):.2f}" if defined else "-" for defined in values)
            table.append([title, kind, sum(row["n"] for row in rows), *cells])
        if reports and not by_kind:
            table.append([title, UNCHALLENGED, 0, *("-" for _ in FLIP_COLUMNS)])
    return table


def _disagreements(assessments: Sequence[Assessment], titles: Mapping[str, str]) -> list[Section]:
    """Papers on which SFT and RL disagree, for reading: the first few of each kind."""
    by_arm = {each.arm: each.greedy for each in assessments}
    sections = []
    for first, second in (("rl", "sft"), ("sft", "rl")):
        pairs = zip(by_arm.get(first, ()), by_arm.get(second, ()), strict=False)
        chosen = [(a, b) for a, b in pairs if a.predicted == a.expected != b.predicted]
        cases = [[a.example_id, a.expected, a.text, b.text] for a, b in chosen[:CASES]]
        title = f"{titles.get(first)} right, {titles.get(second)} wrong: {len(chosen):,} papers"
        table = Table(("paper", "label", "right answer", "wrong answer"), cases, style="text")
        sections.append(Section(title, [table], folded=True))
    return sections


def scores_picture(result: StudyResult) -> str:
    """The plan's metric of every baseline and arm, with intervals and the best reachable score, as an ``<svg>``."""
    trained = {arm.name for arm in result.plan.arms}
    best = (result.card.get("ceiling") or {}).get(result.plan.split, {}).get(result.plan.metric)
    seeds = len(result.plan.seeds)
    return scores_svg(
        f"{metric_name(result.plan)} on {result.papers:,} {result.plan.split} papers, {seeds} seed{'s' * (seeds > 1)} "
        "(lines:\u00a095\u00a0%\u00a0intervals)",
        {row.title: row.greedy for row in result.rows if row.name not in trained},
        {row.title: row.greedy for row in result.rows if row.name in trained},
        None if best is None else (BEST, best),
    )


def terminal_table(title: str, headings: Sequence[str], no_wrap: bool = False) -> TerminalTable:
    """A table of these columns, without rows and without lines."""
    table = TerminalTable(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=no_wrap, header_style="dim")
    return table


def study_table(result: StudyResult) -> TerminalTable:
    """The arms side by side, for a terminal."""
    seeds, mcc = len(result.plan.seeds), result.plan.metric == "mcc"
    counts = f"{result.papers:,} papers, {seeds} seed{'s' * (seeds > 1)}"
    title = f"{result.plan.split} split, {counts}: {metric_name(result.plan)} [95 % interval]"
    table = terminal_table(title, ("", "greedy", "by seed", "sampled", "macro-F1" if mcc else "MCC"))
    for row in result.rows:
        by_seed = " ".join(f"{value:.3f}" for value in row.by_seed) if len(row.by_seed) > 1 else ""
        sampled = f"{row.sampled.value:.3f}" if row.sampled else ""
        style = "bold" if "RL" in row.title else None
        other = row.scores["macro_f1"].value if mcc else row.mcc
        table.add_row(row.title, str(row.greedy), by_seed, sampled, f"{other:.3f}", style=style)
    return table
