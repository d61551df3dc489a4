"""Scores of trained policies and of the baselines on a dataset's test split, all on the same papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tinker

from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ..envs.kit.episodes import run_sync
from ..envs.registry import spec
from ..envs.training.groups import renderer_of
from .ask import Answer
from .baselines import MAJORITY, PRIOR, baseline_answers, examples_of
from .learners import TFIDF
from .policy_scores import ask, score_answers
from .scores import Scores


@dataclass(frozen=True)
class Task:
    """What is asked: an environment over a dataset, for a model family.

    Parameters
    ----------
    env, options : as in `make`
    dataset : str
    model_name, renderer_name : str
    max_tokens : int
    """

    env: str
    options: dict[str, Any]
    dataset: str
    model_name: str
    renderer_name: str
    max_tokens: int

    def benchmark(self, split: str) -> SciSciBenchmark:
        """The benchmark of this task on a split."""
        return SciSciBenchmark(self.env, benchmark_name(self.env), self.dataset, split, self.options)


@dataclass(frozen=True)
class Policy:
    """A model to be asked: a base model, or a checkpoint of it.

    Parameters
    ----------
    name : str
        For tables.
    sampler_path : str or None
        ``tinker://...``; None for the base model.
    """

    name: str
    sampler_path: str | None = None

    async def client(self, task: Task) -> tinker.SamplingClient:
        """A client that samples from it; the engine must be open."""
        service = tinker.ServiceClient()
        return await service.create_sampling_client(base_model=task.model_name, model_path=self.sampler_path)


@dataclass
class PolicyResult:
    """Answers and scores of one policy on one split."""

    name: str
    greedy: Scores
    sampled: Scores
    answers: list[Answer] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "greedy": self.greedy.to_json(), "sampled": self.sampled.to_json()}


async def policy_answers(
    task: Task,
    policy: Policy,
    split: str = "test",
    *,
    temperature: float = 0.0,
    max_examples: int | None = None,
    save_dir: Path | None = None,
) -> list[Answer]:
    """Graded answers of a policy to a split, greedy by default. What `save_dir` holds is not asked for again."""
    return await ask(
        task.benchmark(split),
        await policy.client(task),
        renderer_of(task.renderer_name, task.model_name),
        max_tokens=task.max_tokens,
        temperature=temperature,
        max_examples=max_examples,
        save_dir=save_dir,
    )


async def evaluate_policy(
    task: Task, policy: Policy, split: str = "test", seed: int = 0, save_dir: Path | None = None
) -> PolicyResult:
    """Greedy and sampled (temperature 1) scores of a policy.

    Both are reported because a policy that is nearly uniform looks worse under argmax than it is.
    """
    env_class = spec(task.env)
    answers = [
        await policy_answers(task, policy, split, temperature=temperature, save_dir=save_dir and save_dir / kind)
        for temperature, kind in ((0.0, "greedy"), (1.0, "sampled"))
    ]
    greedy, sampled = (score_answers(found, env_class.labels, seed, env_class.presentations) for found in answers)
    return PolicyResult(policy.name, greedy, sampled, answers[0])


def baseline_answers_of(
    dataset: str,
    seed: int = 0,
    split: str = "test",
    env: str = "disruption-v0",
    options: Mapping[str, Any] | None = None,
    max_examples: int | None = None,
) -> dict[str, list[Answer]]:
    """Answers of the majority class, the class prior, and TF-IDF with logistic regression to a split, graded by the
    environment.
    """
    examples = examples_of(env, dataset, split, dict(options or {}), max_examples)
    return {name: run_sync(baseline_answers(examples, name, seed=seed)) for name in (MAJORITY, PRIOR, TFIDF.name)}
