"""Scores of trained policies and of the baselines on a dataset's test split, all on the same papers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tinker

from ...datasets.store import load_papers
from ...envs.benchmarks import SciSciBenchmark, benchmark_name
from ...envs.groups import renderer_of
from ...envs.registry import spec
from .baselines import majority, prior, tfidf_logistic
from .policy_scores import Answer, ask, score_answers
from .scores import Scores, score


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


@dataclass
class PolicyResult:
    """Answers and scores of one policy on one split."""

    name: str
    greedy: Scores
    sampled: Scores
    answers: list[Answer] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "greedy": self.greedy.to_json(), "sampled": self.sampled.to_json()}


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


async def evaluate_policy(
    task: Task, policy: Policy, split: str = "test", seed: int = 0, save_dir: Path | None = None
) -> PolicyResult:
    """Greedy and sampled (temperature 1) scores of a policy.

    Both are reported because a policy that is nearly uniform looks worse under argmax than it is.
    """
    client = tinker.ServiceClient().create_sampling_client(base_model=task.model_name, model_path=policy.sampler_path)
    renderer = renderer_of(task.renderer_name, task.model_name)
    labels = spec(task.env).labels
    answers: dict[float, list[Answer]] = {}
    for temperature, kind in ((0.0, "greedy"), (1.0, "sampled")):
        answers[temperature] = await ask(
            task.benchmark(split),
            client,
            renderer,
            max_tokens=task.max_tokens,
            temperature=temperature,
            save_dir=save_dir and save_dir / kind,
        )
    return PolicyResult(
        policy.name,
        greedy=score_answers(answers[0.0], labels, seed),
        sampled=score_answers(answers[1.0], labels, seed),
        answers=answers[0.0],
    )


def evaluate_baselines(dataset: str, labels: tuple[str, ...], seed: int = 0, split: str = "test") -> dict[str, Scores]:
    """Majority class, class prior, and TF-IDF with logistic regression, on disruption labels of a split."""
    papers = {name: load_papers(dataset, name) for name in {"train", "validation", split}}
    truth = {name: [str(paper.disruption_label) for paper in papers[name]] for name in papers}
    n = len(papers[split])
    linear = tfidf_logistic(papers["train"], truth["train"], papers["validation"], truth["validation"], papers[split])
    predicted = {
        "majority class": majority(truth["train"], n),
        "class prior": prior(truth["train"], n, seed),
        "TF-IDF + logistic": linear,
    }
    return {name: score(truth[split], answers, labels, seed) for name, answers in predicted.items()}
