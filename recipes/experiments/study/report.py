"""The report of a study: one page and one picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....envs.registry import spec
from ....evaluation.render.curves import curves_svg
from ....evaluation.render.pages import render_page
from ....evaluation.render.reliability import reliability_svg
from ...monitoring.metrics import read_metrics
from .assessment import CHALLENGER, Assessed
from .picture import write_picture
from .plan import run_folder
from .result import StudyResult, verdict

REPORT, PICTURE = "report.html", "study.png"
CURVES = (
    ("validation/macro_f1", "Greedy macro-F1 on validation papers", (0, 1)),
    ("env/all/reward/total", "Mean reward of training rollouts", (-1.05, 1.05)),
    ("env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", (0, 1)),
    ("optim/entropy", "Entropy (nats a token)", None),
    ("kl_policy_base", "KL to the reference", None),
    ("train_mean_nll", "SFT loss (nats a token)", None),
)
ERRORS = 6
FLIP_COLUMNS = ("before", "after", "right_to_wrong", "wrong_to_right")


def write_study_report(result: StudyResult, assessed: Sequence[Assessed], out: Path) -> Path:
    """Write `report.html` and `study.png` into the study's folder and return the page's path."""
    write_picture(result, out / PICTURE)
    plan = result.plan
    runs = {
        arm.title: [read_metrics(run_folder(out, arm, seed)) for seed in plan.seeds]
        for arm in plan.trained
        if arm.name != "format"
    }
    curves = [
        curves_svg(runs, key, title, limits=limits)
        for key, title, limits in CURVES
        if any(key in row for seeds in runs.values() for rows in seeds for row in rows)
    ]
    titles = {row.name: row.title for row in result.rows}
    return render_page(
        "study.html.j2",
        out / REPORT,
        result=result,
        plan=plan,
        card=result.card,
        verdict=verdict(result),
        titles=titles,
        arm_names=list(runs),
        curves=curves,
        reliability=[
            reliability_svg(titles[f.arm], f.calibrated)
            for f in assessed
            if f.calibrated is not None and f.seed in (None, plan.seeds[0])
        ],
        confusions=[
            _confusion(titles[found.arm], found, spec(plan.env).labels)
            for found in assessed
            if found.seed in (None, plan.seeds[0])
        ],
        flips=_flip_rows(result, titles),
        disagreements=_disagreements(assessed, plan.seeds[0], titles),
    )


def _confusion(title: str, found: Assessed, labels: Sequence[str]) -> dict[str, Any]:
    pairs = Counter((a.expected, a.predicted if a.predicted in labels else "") for a in found.greedy)
    rows = [[truth, *(pairs[truth, guess] for guess in (*labels, ""))] for truth in labels]
    return {"title": title, "headings": ["truth", *labels, "no label"], "rows": rows}


def _flip_rows(result: StudyResult, titles: Mapping[str, str]) -> list[list[Any]]:
    """Arm, kind of challenge, and means over seeds of what happened."""
    rows = []
    for arm, reports in result.flips.items():
        kinds: dict[str, list[dict[str, Any]]] = {}
        for report in reports:
            for kind, row in report["challengers"][CHALLENGER]["rows"].items():
                kinds.setdefault(kind, []).append(row)
        for kind, found in kinds.items():
            cells = [_mean([row[name]["value"] for row in found]) for name in FLIP_COLUMNS]
            rows.append([titles[arm], kind, sum(row["n"] for row in found), *cells])
    return rows


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.2f}" if known else "-"


def _disagreements(assessed: Sequence[Assessed], seed: int, titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """Papers on which SFT and RL disagree, for reading: the first few of each kind."""
    by_arm = {found.arm: found for found in assessed if found.seed == seed}
    if not {"sft", "rl"} <= set(by_arm):
        return []
    found = []
    for first, second in (("rl", "sft"), ("sft", "rl")):
        pairs = zip(by_arm[first].greedy, by_arm[second].greedy, strict=True)
        picked = [(a, b) for a, b in pairs if a.predicted == a.expected != b.predicted]
        found.append(
            {
                "title": f"{titles[first]} right, {titles[second]} wrong",
                "n": len(picked),
                "cases": [[a.example_id, a.expected, a.text, b.text] for a, b in picked[:ERRORS]],
            }
        )
    return found
