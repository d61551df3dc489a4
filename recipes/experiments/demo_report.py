"""The end of a demo: a table, sentences that follow from its numbers by fixed rules, and `report.html`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ...datasets.store import load_papers
from ...envs.disruption import DisruptionEnv
from ...envs.kit.episodes import run_sync
from ...evaluation.ask import Answer
from ...evaluation.bootstrap import Score
from ...evaluation.outcome import PolicyResult
from ...evaluation.render.pages import render_page
from ...evaluation.render.pictures import curve_svg
from ..monitoring.metrics import read_metrics
from .demo import ENV_OPTIONS, DemoResult
from .result import compared, terminal_table


@dataclass(frozen=True)
class Transcript:
    """One episode: the prompt, the answer, the true label and the reward."""

    title: str
    prompt: str
    answer: str
    expected: str
    reward: float


def score_rows(result: DemoResult) -> list[tuple[str, Score, Score, Score, Score | None]]:
    """(name, accuracy, macro-F1, MCC, sampled macro-F1) of baselines and policies, in this order."""
    scores = [(name, each, None) for name, each in result.baselines.items()]
    scores += [(each.name, each.greedy, each.sampled.macro_f1) for each in result.policies]
    return [(name, each.accuracy, each.macro_f1, each.mcc, sampled) for name, each, sampled in scores]


def score_table(result: DemoResult) -> Table:
    """Scores for a terminal of 80 columns. Policies answer greedily; the last column is macro-F1 at temperature 1."""
    papers = result.policies[0].greedy.n
    title = f"test split, {papers:,} papers (± half a 95 % bootstrap interval)"
    table = terminal_table(title, ("", "accuracy", "macro-F1", "MCC", "sampled"), no_wrap=True)
    for name, accuracy, macro_f1, mcc, sampled in score_rows(result):
        cells = (accuracy.brief, macro_f1.brief, mcc.brief, f"{sampled.value:.3f}" if sampled else "")
        table.add_row(name, *cells, style="bold" if name.startswith("RL") else None)
    if result.card.get("ceiling"):
        best = result.card["ceiling"]["test"]
        table.add_row("best reachable", f"{best['accuracy']:.3f}", f"{best['macro_f1']:.3f}", "", "", style="dim")
    return table


def verdict(result: DemoResult) -> list[str]:
    """Plain sentences on the result: "better than" where the paired interval over papers leaves out 0."""
    before, learned = _before_rl(result).greedy.macro_f1, result.policies[-1].greedy.macro_f1
    change = f"RL went from macro-F1 {before.value:.3f} to {learned.value:.3f}"
    if result.card.get("ceiling"):
        best = result.card["ceiling"]["test"]["macro_f1"]
        change += f", {learned.value / best:.0%} of the {best:.3f} that a perfect reader of this corpus reaches"
    comparisons = [
        f"RL is {compared(each)} {each.second}: difference in macro-F1 {each.difference.signed}."
        for each in result.differences
    ]
    return [
        f"{change}.",
        *comparisons,
        "These comparisons hold for this seed; scisci-gym study compares over several.",
    ]


def _before_rl(result: DemoResult) -> PolicyResult:
    return result.policies[1 if result.settings.starts_from_sft else 0]


def print_summary(result: DemoResult, report: Path, out: Path, console: Console) -> None:
    """Print the table, the sentences, the report's path, and commands to go on with."""
    console.print()
    console.print(score_table(result))
    for sentence in verdict(result) + result.notes:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nreport: {report}\n\nnext:")
    data, model = out / "data", out / "model"
    for command in (
        f"scisci-gym play disruption-v0 --dataset {data}",
        f"scisci-gym train rl dataset={data} model_name={model} env_options=prompt=short max_tokens=12 "
        f"learning_rate=2e-3 kl_penalty_coef=0.1 log_path=runs/mine",
        f"scisci-gym eval {out / 'rl'} --split validation",
    ):
        console.print(f"  {command}", soft_wrap=True)


def write_report(out: Path, result: DemoResult) -> Path:
    """Write the report of a finished demo into its folder: one file, no script, no network; its path."""
    rows, ceiling = read_metrics(out / "rl"), result.card.get("ceiling")
    best = [("best reachable", ceiling["validation"]["macro_f1"])] if ceiling else [("chance", 1 / 3)]
    validation = {"levels": best, "mark": result.chosen_step, "limits": (0, 1)}
    curves: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("env/all/reward/total", "Mean reward of training rollouts", {"limits": (-1.05, 1.05)}),
        ("validation/macro_f1", "Greedy macro-F1 on validation (circle: chosen)", validation),
        ("env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", {"limits": (0, 1)}),
        ("env/all/format_valid", "Answers that could be parsed", {"limits": (0, 1.05)}),
    )
    return render_page(
        "demo_report.html.j2",
        out / "report.html",
        result=result,
        card=result.card,
        labels=DisruptionEnv.labels,
        rows=score_rows(result),
        verdict=verdict(result),
        curves=[curve_svg(rows, key, title, **options) for key, title, options in curves],
        transcripts=transcripts(out, result),
    )


def transcripts(out: Path, result: DemoResult) -> list[Transcript]:
    """Three greedy episodes of the RL policy on test papers: the first paper that it learned to get right, the first
    that it gets right as before, and the first that it gets wrong."""
    pairs = list(zip(_before_rl(result).answers, result.policies[-1].answers, strict=True))
    right = [(_is_right(before), _is_right(after)) for before, after in pairs]
    papers = {f"disruption-v0:{paper.openalex_id}": paper for paper in load_papers(out / "data", "test")}
    cases = {
        "Right after RL, wrong before": [(False, True)],
        "Right before and after": [(True, True)],
        "Wrong after RL": [(False, False), (True, False)],
    }
    episodes = []
    for title, kinds in cases.items():
        answer = next((after for (_, after), kind in zip(pairs, right, strict=True) if kind in kinds), None)
        if answer is not None:
            env = DisruptionEnv(papers[answer.example_id], **ENV_OPTIONS)
            prompt = "\n".join(str(message["content"]) for message in run_sync(env.initial_observation()))
            episodes.append(Transcript(title, prompt, answer.text, answer.expected, answer.reward))
    return episodes


def _is_right(answer: Answer) -> bool:
    return answer.predicted == answer.expected
