"""`report.html` of a demo: one file with everything in it, no script, no network."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from ...datasets.store import load_papers
from ...envs.disruption import DisruptionEnv
from ...evaluation.ask import Answer
from ...evaluation.render.curves import curve_svg
from ...evaluation.render.pages import render_page
from ..monitoring.metrics import read_metrics
from .demo import ENV_OPTIONS, DemoResult
from .demo_summary import score_rows, verdict


@dataclass(frozen=True)
class Transcript:
    """One episode: what was asked, what was answered, what it was worth."""

    title: str
    prompt: str
    answer: str
    expected: str
    reward: float


def write_report(out: Path, result: DemoResult) -> Path:
    """Write the report of a finished demo into its folder and return its path."""
    rows = read_metrics(out / "rl")
    ceiling = result.card.get("ceiling")
    levels = [("best reachable", ceiling["validation"]["macro_f1"])] if ceiling else [("chance", 1 / 3)]
    curves = [
        curve_svg(rows, "env/all/reward/total", "Mean reward of training rollouts", limits=(-1.05, 1.05)),
        curve_svg(
            rows,
            "validation/macro_f1",
            "Greedy macro-F1 on validation (circle: chosen)",
            levels=levels,
            mark=result.chosen_step,
            limits=(0, 1),
        ),
        curve_svg(
            rows, "env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", limits=(0, 1)
        ),
        curve_svg(rows, "env/all/format_valid", "Answers that could be parsed", limits=(0, 1.05)),
    ]
    return render_page(
        "demo_report.html.j2",
        out / "report.html",
        result=result,
        card=result.card,
        labels=DisruptionEnv.labels,
        rows=score_rows(result.baselines, result.policies),
        verdict=verdict(result),
        curves=curves,
        transcripts=asyncio.run(transcripts(out, result)),
    )


async def transcripts(out: Path, result: DemoResult) -> list[Transcript]:
    """Three greedy episodes of the RL policy on test papers, chosen by rule: the first that it learned to get right,
    the first that it gets right as before, and the first that it gets wrong."""
    started = result.policies[1 if result.settings.plan.start == "sft" else 0]
    start, learned = started.answers, result.policies[-1].answers
    papers = {f"disruption-v0:{paper.openalex_id}": paper for paper in load_papers(out / "data", "test")}
    rules = (
        ("Right after RL, wrong before", lambda before, after: after and not before),
        ("Right before and after", lambda before, after: after and before),
        ("Wrong after RL", lambda before, after: not after),
    )
    found = []
    for title, rule in rules:
        pairs = zip(start, learned, strict=True)
        chosen = next((after for before, after in pairs if rule(_right(before), _right(after))), None)
        if chosen is not None:
            env = DisruptionEnv(papers[chosen.example_id], **ENV_OPTIONS)
            prompt = "\n".join(str(message["content"]) for message in await env.initial_observation())
            reward = env.reward_range[1] if _right(chosen) else env.reward_range[0]
            found.append(Transcript(title, prompt, chosen.text, chosen.expected, reward))
    return found


def _right(answer: Answer) -> bool:
    return answer.predicted == answer.expected
