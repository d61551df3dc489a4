"""`scisci-gym study`: train all arms, ask all of them the same questions, and compare. Resumable at every point."""

import asyncio
from pathlib import Path

from rich.console import Console

from ...datasets.atomic_files import write_json_atomically
from ...datasets.store import load_papers
from ...evaluation.baselines import simple_baselines
from ..kit.config import parse_options
from .assessment import assess_arms
from .duration import training_left
from .plan import StudyPlan
from .report import write_study_report
from .result import StudyResult, study_result
from .runner import Runner, is_resumed


def train_arms(plan: StudyPlan, out: Path, runner: Runner) -> None:
    """Train what is not trained yet: seed by seed, and within a seed in the order of the arms."""
    for seed in plan.seeds:
        for arm in plan.trained:
            assert arm.recipe is not None
            runner.train(arm.recipe, plan.config(out, arm, seed), f"{arm.title}, seed {seed}")
            tell_what_is_left(plan, out, runner.console)


def tell_what_is_left(plan: StudyPlan, out: Path, console: Console) -> None:
    """Print how many runs and updates there are still to train, and how long that takes; nothing after the last."""
    left = training_left(plan, out)
    if left.runs:
        runs = f"{left.runs} run{'s' if left.runs > 1 else ''}"
        console.print(f"[dim]to train: {runs}, {left.updates:,} updates; {left.time}[/dim]", soft_wrap=True)


def run_study(plan: StudyPlan, out: Path, console: Console, engine: str | None = None) -> StudyResult:
    """Run a study in `out`, or continue the one in it.

    Raises `BadInput` if `out` holds a study with another plan, `ValueError` if an arm's options do not fit its recipe,
    and `FileNotFoundError` if the dataset lacks the split; nothing has been started then.
    """
    load_papers(plan.dataset, plan.split)
    resumed = is_resumed(out, "plan.json", plan.to_json(), "delete the folder")
    for arm in plan.trained:
        plan.config(out, arm, plan.seeds[0])
    if not resumed:
        out.mkdir(parents=True, exist_ok=True)
        write_json_atomically(out / "plan.json", plan.to_json())
    tell_what_is_left(plan, out, console)
    with Runner(console, engine) as runner:
        train_arms(plan, out, runner)
        runner.open(out / "checkpoints", plan.model_name)
        assessments = asyncio.run(assess_arms(plan, out, console, with_probabilities=True))
    with console.status("baselines"):
        options = parse_options(plan.env, plan.env_options)
        baselines = simple_baselines(plan.dataset, plan.seeds[0], plan.split, plan.env, options, plan.max_examples)
    result = study_result(plan, out, assessments, baselines)
    write_json_atomically(out / "study.json", result.to_json())
    write_study_report(result, assessments, out)
    return result
