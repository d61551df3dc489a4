"""What a demo run comes to: a table, and sentences that follow from its numbers by fixed rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ...evaluation.bootstrap import Score
from ...evaluation.comparison import ArmDifference
from ...evaluation.metrics import Scores
from ...evaluation.outcome import PolicyResult
from .demo import DemoResult

ScoreRow = tuple[str, Score, Score, Score, Score | None]


def score_rows(baselines: Mapping[str, Scores], policies: Sequence[PolicyResult]) -> list[ScoreRow]:
    """(name, accuracy, macro-F1, MCC, sampled macro-F1) of baselines and policies, in this order."""
    rows: list[ScoreRow] = [
        (name, scores.accuracy, scores.macro_f1, scores.mcc, None) for name, scores in baselines.items()
    ]
    for policy in policies:
        greedy = policy.greedy
        rows.append((policy.name, greedy.accuracy, greedy.macro_f1, greedy.mcc, policy.sampled.macro_f1))
    return rows


def score_table(
    baselines: Mapping[str, Scores],
    policies: Sequence[PolicyResult],
    split: str,
    ceiling: Mapping[str, float] | None = None,
) -> Table:
    """Scores for a terminal of 80 columns. Policies answer greedily; the last column is macro-F1 at temperature 1."""
    papers = policies[0].greedy.n
    title = f"{split} split, {papers:,} papers (± half a 95 % bootstrap interval)"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("", "accuracy", "macro-F1", "MCC", "sampled"):
        table.add_column(heading, no_wrap=True, header_style="dim")
    for name, accuracy, macro_f1, mcc, sampled in score_rows(baselines, policies):
        cells = (accuracy.brief, macro_f1.brief, mcc.brief, f"{sampled.value:.3f}" if sampled else "")
        table.add_row(name, *cells, style="bold" if name.startswith("RL") else None)
    if ceiling:
        table.add_row("best reachable", f"{ceiling['accuracy']:.3f}", f"{ceiling['macro_f1']:.3f}", "", "", style="dim")
    return table


def verdict(result: DemoResult) -> list[str]:
    """Plain sentences on what the run shows: "better than" where the paired interval over papers leaves out 0."""
    start, supervised, learned = (policy.greedy.macro_f1 for policy in result.policies)
    before = supervised if result.settings.plan.start == "sft" else start
    went = f"RL went from macro-F1 {before.value:.3f} to {learned.value:.3f}"
    if result.card.get("ceiling"):
        best = result.card["ceiling"]["test"]["macro_f1"]
        went += f", {learned.value / best:.0%} of the {best:.3f} that a perfect reader of this corpus reaches"
    return [
        f"{went}.",
        *(f"RL is {_compared(difference)}." for difference in result.differences),
        "These comparisons hold for this seed; scisci-gym study compares over several.",
    ]


def _compared(found: ArmDifference) -> str:
    gap = found.difference
    return f"{found.verdict} {'than' if gap.sign else 'from'} {found.second}: difference in macro-F1 {gap.signed}"


def print_summary(result: DemoResult, report: Path, out: Path, console: Console) -> None:
    """Print the table, the sentences, the report's path, and what to do next."""
    ceiling = result.card.get("ceiling")
    console.print()
    console.print(score_table(result.baselines, result.policies, "test", ceiling and ceiling["test"]))
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
