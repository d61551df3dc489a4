"""`scisci-gym study`: train all arms, ask all of them the same questions, and compare. Resumable at every point."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ...datasets.atomic_files import write_json_atomically
from ...datasets.store import load_papers
from ...evaluation.baselines import examples_of, simple_baselines
from ..kit.config import parse_options
from .assessment import assess_arms
from .duration import training_left
from .plan import StudyPlan
from .report import write_study_report
from .result import StudyResult, study_result
from .runner import Runner, is_resumed


def train_arms(plan: StudyPlan, out: Path, runner: Runner, seeds: Sequence[int]) -> None:
    """Train what is not trained yet: seed by seed, and within a seed in the order of the arms."""
    for seed in seeds:
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


def _begin(plan: StudyPlan, out: Path, console: Console) -> None:
    load_papers(plan.dataset, plan.split)
    later = json.loads(json.dumps(plan.later()))
    resumed = is_resumed(out, "plan.json", plan.to_json(), "delete the folder", later=later)
    for arm in plan.trained:
        plan.config(out, arm, plan.seeds[0])
    if not resumed:
        out.mkdir(parents=True, exist_ok=True)
        write_json_atomically(out / "plan.json", plan.to_json())
    tell_what_is_left(plan, out, console)


def train_seeds(plan: StudyPlan, out: Path, seeds: Sequence[int], console: Console, engine: str | None = None) -> None:
    """Train the arms of some of a study's seeds, which several processes can share, and ask no question.

    Raises what `run_study` raises, and `ValueError` if the plan does not have a seed.
    """
    if foreign := [seed for seed in seeds if seed not in plan.seeds]:
        raise ValueError(f"the study has no seed {foreign[0]}; its seeds are {', '.join(map(str, plan.seeds))}")
    _begin(plan, out, console)
    with Runner(console, engine) as runner:
        train_arms(plan, out, runner, seeds)


def run_study(plan: StudyPlan, out: Path, console: Console, engine: str | None = None) -> StudyResult:
    """Run a study in `out`, or continue the one in it.

    Raises `BadInput` if `out` holds a study with another plan, `ValueError` if an arm's options do not fit its recipe,
    and `FileNotFoundError` if the dataset lacks the split; nothing has been started then.
    """
    _begin(plan, out, console)
    with Runner(console, engine) as runner:
        train_arms(plan, out, runner, plan.seeds)
        runner.open(out / "checkpoints", plan.model_name)
        assessments = asyncio.run(assess_arms(plan, out, console, with_probabilities=True, sampled=plan.sampled))
    with console.status("baselines"):
        options = parse_options(plan.env, plan.env_options)
        asked = (plan.split, plan.env, options, plan.max_examples, plan.baselines, plan.train_papers)
        # Where the seed draws the training papers, it draws those of the baselines as well.
        seeds = plan.seeds if plan.train_papers is not None else plan.seeds[:1]
        by_seed = [simple_baselines(plan.dataset, seed, *asked) for seed in seeds]
        baselines = {name: [answers[name] for answers in by_seed] for name in plan.baselines}
        prior = examples_of(plan.env, plan.dataset, "train", options).prior()
    result = study_result(plan, out, assessments, baselines, prior)
    write_json_atomically(out / "study.json", result.to_json())
    write_study_report(result, assessments, out)
    return result
