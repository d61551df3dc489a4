"""The end of a demo: a table, sentences that follow from its numbers by fixed rules, and `report.html`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from ...datasets.store import load_papers
from ...envs.disruption import DisruptionEnv
from ...envs.kit.episodes import run_sync
from ...evaluation.bootstrap import Score
from ...evaluation.render.pictures import curves_svg, scores_svg
from ..monitoring.metrics import read_metrics
from ..reporting.experiment_page import BEST, Section, Table, Transcript, write_experiment_page
from .demo import ENV_OPTIONS, DemoResult
from .demo_plan import CHALLENGED_RL, LANGUAGE_MODEL, model_folder
from .report import FLIP_HEADINGS, UNCHALLENGED, flip_rows, terminal_table
from .result import compared

CASES = {
    "Right after RL, wrong before": [(False, True)],
    "Right before and after": [(True, True)],
    "Wrong after RL": [(False, False), (True, False)],
}
"""Title of an episode -> whether the answers before and after RL are right."""
CHALLENGE_HEADINGS = ("", "challenge", "n", "right first", "right last", "given up", "corrected")
"""`FLIP_HEADINGS` for 80 columns."""


def score_rows(result: DemoResult) -> list[tuple[str, Score, Score, Score, Score | None]]:
    """(name, accuracy, macro-F1, MCC, sampled macro-F1) of baselines and policies, in this order."""
    scores = [(name, each, None) for name, each in result.baselines.items()]
    scores += [(each.name, each.greedy, each.sampled.macro_f1) for each in result.policies]
    return [(name, each.accuracy, each.macro_f1, each.mcc, sampled) for name, each, sampled in scores]


def verdict(result: DemoResult) -> list[str]:
    """Plain sentences on the result: "better than" where the paired interval over papers excludes 0."""
    before, learned = result.before_rl.greedy.macro_f1, result.after_rl.greedy.macro_f1
    change = f"RL went from macro-F1 {before.value:.3f} to {learned.value:.3f}"
    if result.card.get("ceiling"):
        best = result.card["ceiling"]["test"]["macro_f1"]
        change += f", {learned.value / best:.0%} of the {best:.3f} that a perfect reader of this corpus reaches"
    comparisons = [
        f"RL is {compared(each)} {each.second}: difference in macro-F1 {each.difference.signed}."
        for each in result.differences
    ]
    several = "These comparisons hold for this seed; scisci-gym study compares over several."
    return [f"{change}.", *comparisons, several, *challenge_verdict(result)]


def challenge_verdict(result: DemoResult) -> list[str]:
    """What RL made of the policy that is challenged; nothing without the second act."""
    if not result.challenged:
        return []
    before, after = result.challenged
    sentences = [f"Second act: under challenge the mean reward went from {before.reward:.3f} to {after.reward:.3f}."]
    rows = [policy.row("argued") for policy in result.challenged]
    if all(rows):
        given_up, right = (
            ["-" if (value := row[name]["value"]) is None else f"{value:.0%}" for row in rows]
            for name in ("right_to_wrong", "after")
        )
        sentences.append(
            "Where the challenger argued for another label, the policy gave up "
            f"{given_up[0]} of its right first answers before RL and {given_up[1]} after, and ended right in "
            f"{right[0]} and {right[1]} of the episodes."
        )
    return sentences


def challenge_rows(result: DemoResult) -> list[list[Any]]:
    """Rows of policy, kind of challenge, episodes and flips; see `flip_rows`."""
    return flip_rows({policy.title: [policy.flips] for policy in result.challenged})


def print_summary(result: DemoResult, report: Path, out: Path, console: Console) -> None:
    """Print the table for a terminal of 80 columns, the sentences, the report's path, and commands to go on with."""
    title = f"test split, {result.after_rl.greedy.n:,} papers (± half a 95 % bootstrap interval)"
    table = terminal_table(title, ("", "accuracy", "macro-F1", "MCC", "sampled"), no_wrap=True)
    for name, *scores, sampled in score_rows(result):
        cells = (*(each.brief for each in scores), f"{sampled.value:.3f}" if sampled else "")
        table.add_row(name, *cells, style="bold" if name.startswith("RL") else None)
    if result.card.get("ceiling"):
        best = result.card["ceiling"]["test"]
        table.add_row(BEST, f"{best['accuracy']:.3f}", f"{best['macro_f1']:.3f}", "", "", style="dim")
    console.print()
    console.print(table)
    if result.challenged:
        flipped = terminal_table("second act: greedy answers under challenge, test split", CHALLENGE_HEADINGS)
        for row in challenge_rows(result):
            flipped.add_row(*map(str, row), style="bold" if row[0] == result.challenged[1].title else None)
        console.print()
        console.print(flipped)
    for sentence in verdict(result) + result.notes:
        console.print(f"- {sentence}", soft_wrap=True)
    console.print(f"\nreport: {report}\n\nnext:")
    data, model = out / "data", model_folder(out, result.settings)
    # Of a language model the options of the demo's own run, of a tiny one those that suit it.
    own = {"max_tokens": 12, "learning_rate": "2e-3", "kl_penalty_coef": 0.1}
    if result.settings.model is not None:
        own = {**LANGUAGE_MODEL, "learning_rate": result.settings.rl["rate"], "load_checkpoint_path": out / "sft"}
    options = " ".join(f"{name}={value}" for name, value in own.items())
    for command in (
        f"scisci-gym play disruption-v0 --dataset {data}",
        f"scisci-gym train rl dataset={data} model_name={model} env_options=prompt=short {options} log_path=runs/mine",
        f"scisci-gym eval {out / 'rl'} --split validation",
    ):
        console.print(f"  {command}", soft_wrap=True)


def write_report(out: Path, result: DemoResult) -> Path:
    """Write the report of a finished demo into its folder: one file, no script, no network; its path."""
    rows, card, ceiling, settings = read_metrics(out / "rl"), result.card, result.card.get("ceiling"), result.settings
    best = [(BEST, ceiling["validation"]["macro_f1"])] if ceiling else [("chance", 1 / 3)]
    curves: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("env/all/reward/total", "Mean reward of training rollouts", {"limits": (-1.05, 1.05)}),
        (
            "validation/macro_f1",
            "Greedy macro-F1 on validation (circle: chosen)",
            {"levels": best, "marks": {"": result.chosen_step}, "limits": (0, 1.05)},
        ),
        ("env/all/reward_uniform_group_rate", "Groups whose rewards are all equal (no signal)", {"limits": (0, 1.05)}),
        ("env/all/format_valid", "Answers that could be parsed", {"limits": (0, 1.05)}),
    )
    scores: list[Any] = list(score_rows(result))
    if ceiling:
        scores.append((BEST, f"{ceiling['test']['accuracy']:.3f}", f"{ceiling['test']['macro_f1']:.3f}", "", ""))
    splits = [
        (
            name,
            "{}–{}".format(*share["years"]),
            f"{share['papers']:,}",
            *(f"{share['labels'][label] / share['papers']:.0%}" for label in DisruptionEnv.labels),
        )
        for name, share in card["splits"].items()
    ]
    left_out = [
        (name, f"{count:,}") for part in ("works_dropped", "not_labelled") for name, count in card[part].items()
    ]
    sections = [
        Section(
            "Scores on the test split",
            [Table(("", "accuracy", "macro-F1", "MCC", "macro-F1, sampled"), scores, style="scores")],
            f"{result.after_rl.greedy.n:,} papers, 95 % bootstrap intervals over papers. Policies answer greedily, the "
            "last column at temperature 1; an answer that cannot be parsed is wrong. The RL checkpoint (step "
            f"{result.chosen_step}) was chosen on validation papers.",
        ),
        Section(
            "Learning", pictures=[curves_svg({"": [rows]}, key, title, **options) for key, title, options in curves]
        ),
        Section(
            "Under challenge",
            [Table(FLIP_HEADINGS, challenge_rows(result))],
            "The second act: another tiny model, which knows the answer format, learns disruption-adversarial-v0. The "
            "challenger argues for the true label (truth), for a wrong one (wrong), or only asks again (control); "
            f"argued is truth and wrong together. {UNCHALLENGED}: none could be parsed, so none was challenged.",
            pictures=[] if not result.challenged else [_challenge_curve(out)],
        ),
        Section("Three episodes", episodes=transcripts(out, result)),
        Section(
            "Data",
            [Table(("split", "years", "papers", *DisruptionEnv.labels), splits)],
            f"CD index over {card['labels']['window']} years, scheme {card['labels']['scheme']}, split "
            f"{card['split']['kind']}. Content hash {card['content_hash']}. Built by: {card['command']}",
        ),
        Section("Left out of the labelled papers, by reason", [Table(("reason", "works"), left_out)], folded=True),
        Section(
            "Settings and times",
            [
                Table(("setting", "value"), list(settings.to_json().items())),
                Table(("stage", "seconds"), list(result.seconds.items())),
            ],
            folded=True,
        ),
    ]
    made = "made for this run" if settings.model is None else f"given as {settings.model}"
    source = f"Real works from {settings.works}" if settings.works else "Synthetic corpus"
    return write_experiment_page(
        out / "report.html",
        "scisci-gym demo",
        "Judging papers by reinforcement learning",
        f"{source}, {card['works_in_graph']:,} works and {card['citations']['kept']:,} citations; seed "
        f"{settings.seed}; a model of {result.model['parameters']:,} parameters, {made}.",
        verdict(result) + result.notes,
        sections,
        picture=scores_svg(
            f"Macro-F1 on {result.after_rl.greedy.n:,} test papers (lines:\u00a095\u00a0%\u00a0intervals)",
            {name: scores.macro_f1 for name, scores in result.baselines.items()},
            {policy.name: policy.greedy.macro_f1 for policy in result.policies},
            (BEST, ceiling["test"]["macro_f1"]) if ceiling else None,
        ),
    )


def _challenge_curve(out: Path) -> str:
    title = "Mean reward of rollouts that are challenged"
    return curves_svg({"": [read_metrics(out / CHALLENGED_RL)]}, "env/all/reward/total", title, limits=(-1.05, 1.55))


def transcripts(out: Path, result: DemoResult) -> list[Transcript]:
    """Three greedy episodes of the RL policy on test papers: the first paper that it learned to get right, the first
    that it gets right as before, and the first that it gets wrong. Their titles say what was answered before RL."""
    pairs = list(zip(result.before_rl.answers, result.after_rl.answers, strict=True))
    right = [tuple(answer.predicted == answer.expected for answer in pair) for pair in pairs]
    papers = {f"disruption-v0:{paper.openalex_id}": paper for paper in load_papers(out / "data", "test")}
    episodes = []
    for title, kinds in CASES.items():
        found = next((pair for pair, kind in zip(pairs, right, strict=True) if kind in kinds), None)
        if found is not None:
            before, answer = found
            env = DisruptionEnv(papers[answer.example_id], **ENV_OPTIONS)
            prompt = "\n".join(str(message["content"]) for message in run_sync(env.initial_observation()))
            heading = f"{title} (before RL: {before.predicted or 'no answer'})"
            episodes.append(Transcript(heading, prompt, answer.text, answer.expected, answer.reward))
    return episodes
