"""Asking every policy of a study the same questions, and keeping the answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from ....engine import run_seed
from ....envs.opponents.challengers import ScriptedChallenger
from ....envs.registry import spec
from ....envs.training.groups import renderer_of
from ....evaluation.ask import Answer, Policy, Task, label_probabilities, policy_answers
from ....evaluation.baselines import examples_of
from ....evaluation.calibration import Calibration, calibration
from ....evaluation.examination import Examination
from ....evaluation.probes.flips import flip_report
from ...kit.checkpoints import Checkpoint, chosen_checkpoint
from ...kit.config import parse_options, renderer_name_for
from .plan import Arm, StudyPlan, run_folder

# A conversation with a challenge: longer answers than the task's own may be needed to quote.
CHALLENGER = "scripted"


@dataclass
class Assessed:
    """What one policy answered.

    Parameters
    ----------
    arm : str
    seed : int or None
        None for a policy that no seed went into.
    checkpoint : str
        Name of the checkpoint, chosen on validation; "" for the base model.
    step : int
        Updates that it had.
    greedy, sampled : list of Answer
        At temperature 0 and 1, in the benchmark's order.
    calibrated : Calibration or None
        Of the probabilities of the labels' answers; None where answers are not labels.
    flips : dict or None
        `flip_report` of the adversarial environment.
    """

    arm: str
    seed: int | None
    checkpoint: str
    step: int
    greedy: list[Answer]
    sampled: list[Answer]
    calibrated: Calibration | None
    flips: dict[str, Any] | None


def task_of_plan(plan: StudyPlan) -> Task:
    """What all policies of the study are asked."""
    longest = max((int(arm.options.get("max_tokens", 0)) for arm in plan.arms), default=0) or 1024
    return Task(
        plan.env,
        parse_options(plan.env, plan.env_options),
        plan.dataset,
        plan.model_name,
        renderer_name_for(plan.model_name, plan.renderer_name),
        longest,
    )


async def assess_arms(plan: StudyPlan, out: Path, console: Console) -> list[Assessed]:
    """Evaluate every arm and seed; answers that are kept in the runs' folders are not asked for again."""
    task = task_of_plan(plan)
    jobs: list[tuple[Arm, int | None]] = [(arm, None) for arm in plan.arms if not arm.recipe]
    jobs += [(arm, seed) for arm in plan.trained for seed in plan.seeds]
    found = []
    for arm, seed in track(jobs, "evaluating", console=console, transient=True):
        with run_seed(plan.seeds[0] if seed is None else seed):
            found.append(await _assess(plan, task, arm, seed, out))
    return found


async def _assess(plan: StudyPlan, task: Task, arm: Arm, seed: int | None, out: Path) -> Assessed:
    chosen = Checkpoint("", 0, None, None)
    folder = out / arm.name
    if seed is not None:
        folder = run_folder(out, arm, seed)
        chosen = chosen_checkpoint(folder)
    policy = Policy(arm.title, chosen.sampler_path)
    keep = folder / "eval" / f"{plan.split}-{chosen.name or 'base'}"
    client, env_class = await policy.client(task), spec(task.env)
    calibrated = None
    if env_class.asks_for == "label":
        envs = task.benchmark(plan.split).episodes(plan.max_examples)
        renderer = renderer_of(task.renderer_name, task.model_name)
        path = keep / "label_probabilities.jsonl"
        found = await label_probabilities(client, renderer, envs, env_class.labels, path)
        truth = np.array([env_class.labels.index(env.gold_label) for env in envs])
        calibrated = calibration(found, truth, prior=_prior(task))
    flips = None
    if plan.flip_examples and task.env.startswith("disruption") and env_class.asks_for == "label":
        examined = Examination(task, client, keep, plan.split, max_examples=plan.flip_examples)
        flips = await flip_report(examined, {CHALLENGER: ScriptedChallenger()})
    return Assessed(
        arm.name,
        seed,
        chosen.name,
        chosen.step,
        await _answers(plan, task, policy, 0.0, keep / "greedy"),
        await _answers(plan, task, policy, 1.0, keep / "sampled"),
        calibrated,
        flips,
    )


async def _answers(plan: StudyPlan, task: Task, policy: Policy, temperature: float, keep: Path) -> list[Answer]:
    return await policy_answers(
        task, policy, plan.split, temperature=temperature, max_examples=plan.max_examples, save_dir=keep
    )


def _prior(task: Task) -> np.ndarray:
    """Shares of the labels among the training papers, the reference of the Brier skill; float64 (K,)."""
    examples = examples_of(task.env, task.dataset, "train", task.options)
    labels = [env.gold_label for env in examples.train]
    return np.array([labels.count(label) for label in spec(task.env).labels]) / len(labels)
