"""The single-turn tasks for Inspect: `inspect eval scisci_gym/disruption --model ... -T dataset=DIR`, for any provider.

One task for every registered environment of one question and one answer, named as it is (``disruption``, ``novelty``,
``disruption_pairwise``, ``cd_forecast``, ...), and ``scijudge``. The answer is graded by the environment itself, so an
answer gets the same here and in the cookbook's benchmarks. Needs ``pip install 'scisci-gym[inspect]'``; Inspect finds
this module through the entry point group ``inspect_ai``.

A sample carries its papers, so a log can be scored again (``inspect score``) where the dataset is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

try:
    from inspect_ai import Task, task
except ImportError as error:
    raise ImportError("Inspect tasks need inspect-ai: pip install 'scisci-gym[inspect]'") from error
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    metric,
    scorer,
    stderr,
    value_to_float,
)
from inspect_ai.solver import TaskState, generate

from ..datasets.paper import Paper
from ..datasets.store import load_card
from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ..envs.kit.base import SciSciEnv
from ..envs.kit.single_turn import SingleTurnEnv
from ..envs.registry import make, specs
from .metrics import score as classification_scores
from .scijudge import CitationPair, CitationPairEnv, SciJudgeBenchmark

CUT_OFF = ("max_tokens", "model_length")


def sample_of(env: SciSciEnv, options: dict[str, Any]) -> Sample:
    """An episode of a single-turn environment as a sample, with what it takes to make the environment again."""
    assert isinstance(env, SingleTurnEnv)
    made_from: dict[str, Any] = {
        "env": env.env_id,
        "options": options,
        "papers": [asdict(paper) for paper in env.papers],
        "year": env.papers[0].publication_year,
        "field": env.papers[0].primary_field,
        # Both orders of a pair are one question.
        "question": ":".join(sorted(paper.openalex_id for paper in env.papers)),
        "labels": list(env.labels),
    }
    if isinstance(env, CitationPairEnv):
        made_from["more_cited"] = env.pair.more_cited
    return Sample(input=env.question(), target=env.gold_label, id=env.example_id, metadata=made_from)


def env_of(metadata: dict[str, Any]) -> SingleTurnEnv:
    """Inverse of `sample_of`."""
    papers = [Paper.from_row(row) for row in metadata["papers"]]
    if metadata["env"] == CitationPairEnv.env_id:
        return CitationPairEnv(CitationPair(papers[0], papers[1], metadata["more_cited"]))
    env = make(metadata["env"], *papers, **metadata["options"])
    assert isinstance(env, SingleTurnEnv)
    return env


def _of_each(scores: list[SampleScore], name: str) -> list[Any]:
    return [(sample.score.metadata or {})[name] for sample in scores]


@metric
def answered() -> Metric:
    """Share of samples with an answer that could be parsed."""

    def compute(scores: list[SampleScore]) -> float:
        return sum(_of_each(scores, "valid")) / len(scores)

    return compute


@metric
def mean_reward() -> Metric:
    """Mean reward of the environment, such as 1 minus the Brier score of a forecast."""

    def compute(scores: list[SampleScore]) -> float:
        return sum(_of_each(scores, "reward")) / len(scores)

    return compute


@metric
def macro_f1() -> Metric:
    """Macro-F1 over the labels; no answer counts as none of them. With several epochs, of the first."""

    def compute(scores: list[SampleScore]) -> float:
        labels = (scores[0].sample_metadata or {})["labels"]
        return classification_scores(_of_each(scores, "expected"), _of_each(scores, "predicted"), labels).macro_f1.value

    return compute


@metric
def right_in_both_orders() -> Metric:
    """Share of pairs that are answered right in both orders."""

    def compute(scores: list[SampleScore]) -> float:
        right: defaultdict[str, list[float]] = defaultdict(list)
        as_number = value_to_float()
        for sample in scores:
            right[(sample.sample_metadata or {})["question"]].append(as_number(sample.score.value))
        return sum(min(both) for both in right.values()) / len(right)

    return compute


SHARED = [accuracy(), stderr(cluster="question"), macro_f1(), mean_reward(), answered()]


def _grader() -> Scorer:
    # A function of its own for every scorer: Inspect writes a scorer's name on the function that it returns.
    async def grade(state: TaskState, target: Target) -> Score:
        del target
        env = env_of(state.metadata)
        # As in training and in the cookbook's benchmarks: an answer that was cut off is no answer.
        cut_off = state.output.stop_reason in CUT_OFF
        graded = env.grade("" if cut_off else state.output.completion)
        value = CORRECT if graded.correct else INCORRECT if graded.valid else NOANSWER
        metadata = {"expected": env.gold_label, "predicted": graded.predicted, "valid": graded.valid}
        metadata |= {"reward": graded.reward.total, **graded.details}
        return Score(value=value, answer=graded.predicted, metadata=metadata)

    return grade


@scorer(metrics=SHARED)
def environment_grade() -> Scorer:
    """Grade by the environment that asked the question."""
    return _grader()


@scorer(metrics=[*SHARED, right_in_both_orders()])
def environment_grade_of_pairs() -> Scorer:
    """The same, for questions that are asked in both orders."""
    return _grader()


def _task(benchmark: SciSciBenchmark, max_examples: int | None, presentations: int, about: dict[str, Any]) -> Task:
    envs = benchmark.episodes(max_examples)
    samples = [sample_of(env, benchmark.made_with) for env in envs]
    return Task(
        dataset=MemoryDataset(samples, name=benchmark.name),
        solver=generate(),
        scorer=environment_grade_of_pairs() if presentations == 2 else environment_grade(),
        config=GenerateConfig(temperature=0.0),
        version=benchmark.env_id.rpartition("-v")[2] if "-v" in benchmark.env_id else "0",
        metadata=about,
    )


def _task_of(env_class: type[SciSciEnv]) -> Callable[..., Task]:
    env_id, name = env_class.env_id, benchmark_name(env_class.env_id)

    def build(
        dataset: str | None = None,
        split: str = "test",
        prompt: str = "full",
        references: bool = False,
        max_examples: int | None = None,
    ) -> Task:
        options = {"prompt": prompt, "references": references}
        benchmark = SciSciBenchmark(env_id, name, None if dataset is None else str(dataset), split, options)
        about = {"env": env_id, "split": split, "content_hash": load_card(benchmark.folder()).get("content_hash")}
        return _task(benchmark, max_examples, env_class.presentations, about)

    build.__name__ = build.__qualname__ = name.removeprefix("scisci_")
    build.__doc__ = f"""{(env_class.__doc__ or env_id).splitlines()[0]}

    Parameters
    ----------
    dataset : str
        Folder that `scisci-gym build` wrote; by default the environment variable SCISCI_GYM_DATASET.
    split : "test" | "validation" | "train"
    prompt : "full" | "short"
    references : bool
        Show the titles of the papers that it cites.
    max_examples : int or None
        Spread evenly over the split, unlike Inspect's --limit, which takes the oldest papers.
    """
    return task(name=build.__name__)(build)


@task
def scijudge(file: str | None = None, max_examples: int | None = None) -> Task:
    """Which of two papers is cited more, on a file in the format of SciJudgeBench.

    Parameters
    ----------
    file : str
        By default the environment variable SCISCI_GYM_SCIJUDGE.
    """
    benchmark = SciJudgeBenchmark(None if file is None else str(file))
    return _task(benchmark, max_examples, 2, {"env": benchmark.env_id})


TASKS = {
    benchmark_name(env_class.env_id).removeprefix("scisci_"): _task_of(env_class)
    for env_class in specs()
    if issubclass(env_class, SingleTurnEnv)
}
globals().update(TASKS)
