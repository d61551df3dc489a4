"""The same questions to every policy, and its answers kept: for studies, the demo and `scisci-gym eval`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tinker
from rich.console import Console
from rich.progress import track

from ...engine import run_seed
from ...envs.registry import spec
from ...envs.training.groups import renderer_of
from ...evaluation.ask import Answer, Policy, Task, label_probabilities, policy_answers
from ...evaluation.baselines import examples_of
from ...evaluation.calibration import Calibration, calibration
from ...evaluation.examination import Examination
from ...evaluation.outcome import stated
from ...evaluation.probes.flips import challenging_env, flip_report
from ..kit.checkpoints import Checkpoint, chosen_checkpoint
from ..kit.config import parse_options, renderer_name_for
from .plan import Arm, StudyPlan


@dataclass(frozen=True)
class PolicyAnswers:
    """Answers of a policy in the benchmark's order: greedy, and at temperature 1 if those were wanted."""

    greedy: list[Answer]
    sampled: list[Answer]


async def ask_policy(
    task: Task,
    policy: Policy,
    split: str,
    folder: Path,
    *,
    max_examples: int | None = None,
    sampled: bool = True,
    with_probabilities: bool = False,
    seed: int = 0,
) -> PolicyAnswers:
    """Answers of a policy, whose engine is open. Answers in `folder` are not asked for again.

    With `sampled` it is asked at temperature 1 as well; answers that were drawn with another seed are kept apart.
    `with_probabilities` asks for the policy's own probabilities of the labels too, where it is asked for one label; see
    `label_probabilities`.
    """

    async def answers(temperature: float, kind: str) -> list[Answer]:
        return await policy_answers(
            task, policy, split, temperature=temperature, max_examples=max_examples, save_dir=folder / kind
        )

    greedy, env_class = await answers(0.0, "greedy"), spec(task.env)
    if with_probabilities and env_class.asks_for == "label":
        probabilities = await label_probabilities(
            await policy.client(task),
            renderer_of(task.renderer_name, task.model_name),
            task.benchmark(split).episodes(max_examples),
            env_class.labels,
            folder / "label_probabilities.jsonl",
        )
        greedy = with_label_probabilities(greedy, probabilities)
    return PolicyAnswers(greedy, await answers(1.0, f"sampled-{seed}" if seed else "sampled") if sampled else [])


async def client_of_seed(policy: Policy, task: Task, seed: int) -> tinker.SamplingClient:
    """A client of a policy, whose engine is open, that draws its samples with this seed."""
    with run_seed(seed):
        return await policy.client(task)


def with_label_probabilities(answers: Sequence[Answer], probabilities: np.ndarray) -> list[Answer]:
    """The same answers with probabilities (N, K) of the labels."""
    rows = probabilities.tolist()
    return [replace(answer, probabilities=tuple(row)) for answer, row in zip(answers, rows, strict=True)]


@dataclass(frozen=True)
class Assessment(PolicyAnswers):
    """What one policy of an experiment answered.

    `seed` is None for a policy that no seed went into; `step` counts the updates of its checkpoint, which was chosen on
    validation papers. `calibrated` is of the labels' probabilities, `flips` the `flip_report` of the adversarial
    environment; both are None where they were not asked for.
    """

    arm: str
    seed: int | None
    step: int
    calibrated: Calibration | None
    flips: dict[str, Any] | None

    @property
    def predictions(self) -> list[str]:
        """Greedy answers as labels."""
        return [answer.predicted for answer in self.greedy]


async def assess_arms(
    plan: StudyPlan, out: Path, console: Console, with_probabilities: bool, sampled: bool = True
) -> list[Assessment]:
    """Evaluate every arm and seed on the split of the plan; answers in the runs' folders are not asked for again.

    `with_probabilities` and `sampled` are as in `ask_policy`.
    """
    task = Task(
        plan.env,
        parse_options(plan.env, plan.env_options),
        plan.dataset,
        plan.model_name,
        renderer_name_for(plan.model_name, plan.renderer_name),
        max((int(arm.options.get("max_tokens", 0)) for arm in plan.arms), default=0) or 1024,
    )
    policies: list[tuple[Arm, int | None]] = [(arm, None) for arm in plan.arms if not arm.recipe]
    policies += [(arm, seed) for arm in plan.trained for seed in plan.seeds]
    prior = examples_of(plan.env, plan.dataset, "train", task.options).prior() if with_probabilities else None
    assessments = []
    for arm, seed in track(policies, "evaluating", console=console, transient=True):
        with run_seed(plan.seeds[0] if seed is None else seed):
            assessments.append(await _assess(plan, task, arm, seed, out, prior, sampled))
    return assessments


async def _assess(
    plan: StudyPlan, task: Task, arm: Arm, seed: int | None, out: Path, prior: np.ndarray | None, sampled: bool
) -> Assessment:
    folder = out / arm.name if seed is None else plan.folder(out, arm, seed)
    checkpoint = Checkpoint("", 0, None, None) if seed is None else chosen_checkpoint(folder)
    policy, env_class = Policy(arm.title, checkpoint.sampler_path), spec(task.env)
    keep = folder / "eval" / f"{plan.split}-{checkpoint.name or 'base'}"
    answers = await ask_policy(
        task,
        policy,
        plan.split,
        keep,
        max_examples=plan.max_examples,
        sampled=sampled,
        with_probabilities=prior is not None,
    )
    probabilities, truth = stated(answers.greedy, env_class.labels)
    calibrated = flips = None
    if env_class.asks_for == "label" and probabilities is not None:
        calibrated = calibration(probabilities, truth, prior=prior)
    if plan.flip_examples and env_class.asks_for == "label" and challenging_env(env_class) is not None:
        examined = Examination(task, await policy.client(task), keep, plan.split, max_examples=plan.flip_examples)
        flips = await flip_report(examined)
    return Assessment(answers.greedy, answers.sampled, arm.name, seed, checkpoint.step, calibrated, flips)
