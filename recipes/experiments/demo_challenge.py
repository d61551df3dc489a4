"""The second act of the demo: a policy learns to be challenged, and its flips are counted before and after that."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from rich.console import Console

from ...envs.adversarial import AdversarialDisruptionEnv
from ...evaluation.probes.flips import READER
from ...evaluation.records import plain
from ..kit.config import tiny_notes
from ..kit.tiny_model import ensure_tiny_model
from .assessment import assess_arms
from .plan import TINY, Arm, OneSeedPlan
from .runner import Runner

MODEL, BEFORE, AFTER = "challenged-model", "challenged-start", "challenged-rl"
"""Names of folders in that of the demo: of the model, its answers as it is, and the run of RL."""
PRETRAINING_STEPS, RL_STEPS, EXAMPLES = 300, 36, 200
GROUPS = 12
"""Groups of a step of RL: as many papers of each of the three labels."""
ENV_OPTIONS = {"prompt": "short"}


@dataclass(frozen=True)
class ChallengedPolicy:
    """What happened to a policy that was challenged on test papers.

    Parameters
    ----------
    title : str
    step : int
        Updates of its checkpoint.
    reward : float
        Mean over its greedy episodes, in [-1, 1.5].
    flips : dict
        Its `flip_report`.
    """

    title: str
    step: int
    reward: float
    flips: dict[str, Any]

    def row(self, kind: str) -> dict[str, Any]:
        """The result of `flips` for a kind of challenge; empty if it did not occur."""
        return self.flips["challengers"][READER]["rows"].get(kind, {})

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return asdict(self)


def challenge_plan(out: Path, seed: int, steps: int, options: Mapping[str, Any]) -> OneSeedPlan:
    """The policies of the second act: a tiny model that knows the answer format, and what RL makes of it.

    RL has the defaults of its recipe, but for `GROUPS`, `steps` and `options`.
    """
    options = {**TINY, "groups_per_batch": GROUPS, "max_steps": steps, "eval_every": 12, "save_every": 12, **options}
    return OneSeedPlan(
        dataset=str(out / "data"),
        model_name=str(out / MODEL),
        arms=(Arm(BEFORE, "before RL"), Arm(AFTER, "after RL", "rl", None, options)),
        env=AdversarialDisruptionEnv.env_id,
        env_options="prompt=short",
        seeds=(seed,),
        flip_examples=EXAMPLES,
        max_examples=EXAMPLES,
        validation_examples=128,
    )


def make_model(out: Path, seed: int, steps: int | None = None) -> None:
    """Make the tiny model of the second act, unless it is there; `steps` are those of a round of pre-training."""
    options = {"options": ENV_OPTIONS, "env_id": AdversarialDisruptionEnv.env_id, "seed": seed, "progress": False}
    ensure_tiny_model(out / MODEL, out / "data", **options, steps=steps or PRETRAINING_STEPS)


@contextmanager
def model_made_meanwhile(out: Path, seed: int, steps: int | None = None) -> Iterator[None]:
    """`make_model` in another process while the block runs: pre-training keeps one core busy, and most machines have
    two. An error of it is raised when the block has ended."""
    if tiny_notes(str(out / MODEL)) is not None:
        yield
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        made = pool.submit(make_model, out, seed, steps)
        yield
        made.result()


def challenge_policies(
    out: Path,
    seed: int,
    runner: Runner,
    console: Console,
    steps: tuple[int | None, int | None] = (None, None),
    options: Mapping[str, Any] = MappingProxyType({}),
) -> list[ChallengedPolicy]:
    """Make the tiny model, train it, and challenge both policies; what is in `out` already is not done again.

    `steps` are those of a round of pre-training, and of RL, of which there are 36 at most; `options` are of RL.
    """
    pretraining, training = steps
    plan = challenge_plan(out, seed, min(training or RL_STEPS, RL_STEPS), options)
    make_model(out, seed, pretraining)
    arm = plan.arm(AFTER)
    assert arm.recipe is not None
    runner.train(arm.recipe, plan.config(out, arm, seed), "RL under challenge")
    runner.open(out / "checkpoints", plan.model_name)
    assessments = asyncio.run(assess_arms(plan, out, console, with_probabilities=False, sampled=False))
    policies = []
    for each in assessments:
        assert each.flips is not None
        reward = fmean(answer.reward for answer in each.greedy)
        policies.append(ChallengedPolicy(plan.arm(each.arm).title, each.step, reward, plain(each.flips)))
    return policies
