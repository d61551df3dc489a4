"""Asking a policy the questions of a benchmark, and scoring its answers: one road for training, tests and reports."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import tinker
from tinker_cookbook.eval.benchmarks import BenchmarkConfig, load_trajectories, run_benchmark
from tinker_cookbook.eval.evaluators import SamplingClientEvaluator
from tinker_cookbook.renderers import Renderer

from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ..envs.registry import spec
from .ask import Answer, answer_of
from .kept_answers import keep_whole_answers
from .scores import Scores, score

__all__ = ["Answer", "ValidationScores", "ask", "score_answers"]


async def ask(
    benchmark: SciSciBenchmark,
    client: tinker.SamplingClient,
    renderer: Renderer,
    *,
    max_tokens: int,
    temperature: float,
    max_examples: int | None = None,
    save_dir: str | Path | None = None,
    concurrency: int = 256,
) -> list[Answer]:
    """Answers of a policy to a benchmark, in its order, through the cookbook's `run_benchmark`.

    Parameters
    ----------
    temperature : float >= 0
        0 for greedy answers.
    save_dir : path or None
        Where the runner keeps its trajectories; answers found there are not asked for again.

    Raises
    ------
    RuntimeError
        If an example failed for a technical reason. Such an example is not a wrong answer and must not pass for one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(save_dir or scratch)
        keep_whole_answers(Path(folder), benchmark.name)
        config = BenchmarkConfig(
            max_tokens=max_tokens,
            temperature=temperature,
            max_examples=max_examples,
            save_dir=folder,
            concurrency=concurrency,
        )
        result = await run_benchmark(benchmark, client, renderer, config)
        stored = {trajectory.example_id: trajectory for trajectory in load_trajectories(folder, benchmark.name)}
        if result.num_errors:
            failed = next(trajectory for trajectory in stored.values() if trajectory.error)
            raise RuntimeError(
                f"{result.num_errors} of {result.num_examples} examples of {benchmark.name} failed, the first "
                f"({failed.example_id}) with: {failed.error}"
            )
    answers = []
    for env in benchmark.episodes(max_examples):
        trajectory = stored[env.example_id]
        spoken = [turn.content for turn in trajectory.turns if turn.role == "assistant"]
        # An episode that was cut off has no metrics: it earned the floor.
        reward = float(trajectory.metrics.get("env_reward", env.reward_range[0]))
        answers.append(answer_of(env, spoken[-1] if spoken else "", trajectory.logs, reward))
    return answers


def score_answers(answers: Sequence[Answer], labels: Sequence[str], seed: int = 0, block: int = 1) -> Scores:
    """`score` of a list of answers."""
    return score([a.expected for a in answers], [a.predicted for a in answers], labels, seed, block)


class ValidationScores(SamplingClientEvaluator):
    """Greedy scores on validation papers during training; what a checkpoint is chosen by, so that the test set is not.

    Logs ``validation/accuracy``, ``validation/macro_f1``, ``validation/mcc``, ``validation/answered``, and for every
    label ``validation/predicted/<label>``, its share of the answers.
    """

    def __init__(self, benchmark: SciSciBenchmark, renderer: Renderer, max_tokens: int, max_examples: int | None):
        self.benchmark, self.renderer, self.max_tokens, self.max_examples = (
            benchmark,
            renderer,
            max_tokens,
            max_examples,
        )

    async def __call__(self, sampling_client: tinker.SamplingClient) -> dict[str, float]:
        answers = await ask(
            self.benchmark,
            sampling_client,
            self.renderer,
            max_tokens=self.max_tokens,
            temperature=0.0,
            max_examples=self.max_examples,
        )
        labels = spec(self.benchmark.env_id).labels
        scores = score_answers(answers, labels)
        return {
            "validation/accuracy": scores.accuracy.value,
            "validation/macro_f1": scores.macro_f1.value,
            "validation/mcc": scores.mcc.value,
            "validation/answered": scores.answered,
            **{f"validation/predicted/{label}": share for label, share in _shares(scores, labels).items()},
        }


def _shares(scores: Scores, labels: Sequence[str]) -> dict[str, float]:
    columns = zip(*scores.confusion, strict=True)
    return {label: sum(column) / scores.n for label, column in zip(labels, columns, strict=False)}
