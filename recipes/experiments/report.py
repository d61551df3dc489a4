"""The report of a study: one page, and one picture of its scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from ...envs.registry import spec
from ...evaluation.render.pages import render_page
from ...evaluation.render.pictures import curves_svg, reliability_svg
from ..monitoring.metrics import read_metrics
from .assessment import CHALLENGER, Assessment
from .result import LINEAR, StudyResult, verdict

INK, MUTED, ACCENT, NEUTRAL = "#1b1f24", "#6b7480", "#0b66b5", "#8a929c"
CURVES = (
    ("validation/macro_f1", "Greedy macro-F1 on validation papers", (0, 1)),
    ("env/all/reward/total", "Mean reward of training rollouts", (-1.05, 1.05)),
    ("env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", (0, 1)),
    ("optim/entropy", "Entropy (nats a token)", None),
    ("kl_policy_base", "KL to the reference", None),
    ("train_mean_nll", "SFT loss (nats a token)", None),
)
CASES = 6
FLIP_COLUMNS = ("before", "after", "right_to_wrong", "wrong_to_right")


def write_study_report(result: StudyResult, assessments: Sequence[Assessment], out: Path) -> Path:
    """Write `report.html` and `study.png` into the study's folder and return the page's path."""
    write_picture(result, out / "study.png")
    plan, titles = result.plan, {row.name: row.title for row in result.rows}
    runs = {
        arm.title: [read_metrics(plan.folder(out, arm, seed)) for seed in plan.seeds]
        for arm in plan.trained
        if arm.name != "format"
    }
    logged = {key for seeds in runs.values() for rows in seeds for row in rows for key in row}
    of_first_seed = [each for each in assessments if each.seed in (None, plan.seeds[0])]
    labels = spec(plan.env).labels
    return render_page(
        "study.html.j2",
        out / "report.html",
        result=result,
        plan=plan,
        card=result.card,
        verdict=verdict(result),
        titles=titles,
        arm_names=list(runs),
        curves=[curves_svg(runs, key, title, limits=limits) for key, title, limits in CURVES if key in logged],
        reliability=[reliability_svg(titles[each.arm], each.calibrated) for each in of_first_seed if each.calibrated],
        confusions=[_confusion(titles[each.arm], each, labels) for each in of_first_seed],
        flips=_flip_rows(result, titles),
        disagreements=_disagreements(of_first_seed, titles),
    )


def _confusion(title: str, assessment: Assessment, labels: Sequence[str]) -> dict[str, Any]:
    pairs = Counter((a.expected, a.predicted if a.predicted in labels else "") for a in assessment.greedy)
    rows = [[truth, *(pairs[truth, guess] for guess in (*labels, ""))] for truth in labels]
    return {"title": title, "headings": ["truth", *labels, "no label"], "rows": rows}


def _flip_rows(result: StudyResult, titles: Mapping[str, str]) -> list[list[Any]]:
    """Rows of arm, kind of challenge, episodes, and what happened as means over seeds."""
    table = []
    for arm, reports in result.flips.items():
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for report in reports:
            for kind, row in report["challengers"][CHALLENGER]["rows"].items():
                by_kind.setdefault(kind, []).append(row)
        for kind, rows in by_kind.items():
            cells = [_mean([row[name]["value"] for row in rows]) for name in FLIP_COLUMNS]
            table.append([titles[arm], kind, sum(row["n"] for row in rows), *cells])
    return table


def _mean(values: Sequence[float | None]) -> str:
    defined = [value for value in values if value is not None]
    return f"{sum(defined) / len(defined):.2f}" if defined else "-"


def _disagreements(assessments: Sequence[Assessment], titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """Papers on which SFT and RL disagree, for reading: the first few of each kind."""
    by_arm = {each.arm: each.greedy for each in assessments}
    if not {"sft", "rl"} <= set(by_arm):
        return []
    tables = []
    for first, second in (("rl", "sft"), ("sft", "rl")):
        pairs = zip(by_arm[first], by_arm[second], strict=True)
        chosen = [(a, b) for a, b in pairs if a.predicted == a.expected != b.predicted]
        cases = [[a.example_id, a.expected, a.text, b.text] for a, b in chosen[:CASES]]
        tables.append({"title": f"{titles[first]} right, {titles[second]} wrong", "n": len(chosen), "cases": cases})
    return tables


def write_picture(result: StudyResult, path: Path) -> None:
    """Draw the macro-F1 of all arms, from top to bottom, as PNG.

    A bar is the 95 % interval, a dot the mean over seeds, a small ring one seed. Dashed lines show TF-IDF with logistic
    regression and the best score that can be reached, if it is known.
    """
    rows = [row for row in result.rows if row.name != LINEAR]
    figure, axes = plt.subplots(figsize=(8.0, 0.44 * len(rows) + 1.3))
    for height, row in zip(range(len(rows), 0, -1), rows, strict=True):
        colour = ACCENT if "RL" in row.title else NEUTRAL
        axes.plot([row.greedy.low, row.greedy.high], [height] * 2, color=colour, linewidth=5, alpha=0.35)
        if len(row.by_seed) > 1:
            axes.plot(row.by_seed, [height] * len(row.by_seed), "o", color=colour, markersize=5, fillstyle="none")
        axes.plot(row.greedy.value, height, "o", color=colour, markersize=7)
        place = ("axes fraction", "data")
        axes.annotate(f"{row.greedy.value:.3f}", (1.01, height), xycoords=place, va="center", color=INK)
    levels = [(LINEAR, linear.greedy.value)] if (linear := result.row(LINEAR)) else []
    if ceiling := result.card.get("ceiling"):
        levels.append(("best reachable", ceiling[result.plan.split]["macro_f1"]))
    for index, (name, value) in enumerate(levels):
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        corner = (value, len(rows) + 0.62 + 0.42 * index)
        axes.annotate(f"{name} {value:.3f} ", corner, ha="right", va="bottom", color=MUTED, fontsize=9)
    axes.set_yticks(range(len(rows), 0, -1), [row.title for row in rows])
    axes.set_ylim(0.4, len(rows) + 0.6 + 0.42 * len(levels))
    seeds = len(result.plan.seeds)
    axes.set_xlabel(f"macro-F1 on {result.papers:,} {result.plan.split} papers; mean, 95 % interval, {seeds} seeds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.savefig(path, format="png", dpi=150, bbox_inches="tight")
    plt.close(figure)
