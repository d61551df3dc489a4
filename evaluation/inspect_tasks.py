"""The single-turn tasks for Inspect: `inspect eval scisci_gym/disruption --model ... -T dataset=DIR`, for any provider.

One task for every registered environment of one question and one answer, named as it is (``disruption``, ``novelty``,
``disruption_pairwise``, ``cd_forecast``, ...), and ``scijudge``. The answer is graded by the environment itself, so an
answer gets the same here and in the cookbook's benchmarks. Needs ``pip install 'scisci-gym[inspect]'``; Inspect finds
this module through the entry point group ``inspect_ai``.

A sample carries its papers, so a log can be scored again (``inspect score``) where the dataset is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tinker

try:
    from inspect_ai import Task, task
except ImportError as error:
    raise ImportError("Inspect tasks need inspect-ai: pip install 'scisci-gym[inspect]'") from error
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import list_eval_logs, read_eval_log
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
from tinker_cookbook.eval.inspect_evaluators import InspectEvaluatorBuilder

from ..datasets.paper import Paper
from ..datasets.store import load_card
from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark, benchmark_name
from ..envs.kit.base import SciSciEnv
from ..envs.kit.single_turn import SingleTurnEnv
from ..envs.registry import make, specs
from .metrics import score as classification_scores
from .scijudge import CitationPair, CitationPairEnv, SciJudgeBenchmark

PACKAGES = ("inspect_ai", "inspect_evals", "scisci_gym", "tinker_cookbook")
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
    options = benchmark.env_options()
    samples = [sample_of(env, options) for env in benchmark.episodes(max_examples)]
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


def tasks_of(
    names: Sequence[str], dataset: str, split: str, options: Mapping[str, Any], max_examples: int | None = None
) -> list[Any]:
    """Inspect tasks by name; those of this project become tasks over a dataset with the prompt of a policy.

    `dataset`, `split` and `options` are as in `SciSciBenchmark`; of the options those of the prompt count.
    `max_examples` are spread evenly over the split. Inspect looks up names that do not begin with ``scisci_gym/``.

    Raises
    ------
    ValueError
        If this project has no such task.
    """
    prompt = {name: value for name, value in options.items() if name in ("prompt", "references")}
    tasks: list[Any] = []
    for name in names:
        package, _, task_name = name.rpartition("/")
        if package != "scisci_gym":
            tasks.append(name)
        elif task_name == "scijudge":
            tasks.append(scijudge(max_examples=max_examples))
        elif task_name in TASKS:
            tasks.append(TASKS[task_name](dataset=dataset, split=split, max_examples=max_examples, **prompt))
        else:
            raise ValueError(f"no Inspect task {name}; there are scijudge, {', '.join(sorted(TASKS))}")
    return tasks


async def run_inspect(
    tasks: Sequence[Any],
    client: tinker.SamplingClient,
    *,
    model_name: str,
    renderer_name: str,
    folder: Path,
    max_tokens: int = 1024,
    temperature: float = 0.0,
    limit: int | None = None,
) -> dict[str, Any]:
    """Run Inspect tasks on a client that samples from a policy, through the cookbook's `InspectEvaluator`.

    Parameters
    ----------
    tasks : sequence of str or inspect_ai.Task
        Names as on Inspect's command line, such as ``"scisci_gym/disruption"`` or ``"inspect_evals/gpqa_diamond"``.
    folder : Path
        Inspect's logs go here, for ``inspect view``.
    limit : int or None
        Number of examples of each task that is given by its name: the first ones.

    Returns
    -------
    dict, ready for JSON: ``packages`` (versions) and ``tasks``: for each its name, version, dataset, number of samples,
    metrics, and the log it stands in.

    Raises
    ------
    RuntimeError
        If a task did not finish, or some of its samples failed: such samples are not wrong answers, and Inspect leaves
        them out of its averages.

    Notes
    -----
    The cookbook's adapter tells Inspect that every answer ended by itself. An answer that is cut off right behind its
    closing tag counts here, and not in `run_benchmark`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = {info.name for info in list_eval_logs(str(folder))}
    # Inspect takes a list of names or a list of tasks, not both.
    for named in (True, False):
        batch = [task for task in tasks if isinstance(task, str) == named]
        if not batch:
            continue
        config = InspectEvaluatorBuilder(
            tasks=batch,
            renderer_name=renderer_name,
            model_name=model_name,
            max_tokens=max_tokens,
            temperature=temperature,
            limit=limit if named else None,
            log_dir=str(folder),
            log_level="warning",
        )
        await config()(client)
    new = [info for info in list_eval_logs(str(folder)) if info.name not in before]
    results = [_result_of(read_eval_log(info, header_only=True)) for info in new]
    if len(results) != len(tasks):
        names = ", ".join(result["task"] for result in results) or "none"
        raise RuntimeError(f"{len(results)} of {len(tasks)} Inspect tasks left a log in {folder}: {names}")
    return {
        "packages": {name: _version(name) for name in PACKAGES},
        "max_tokens": max_tokens,
        "temperature": temperature,
        "limit": limit,
        "tasks": sorted(results, key=lambda result: result["task"]),
    }


def _result_of(log: Any) -> dict[str, Any]:
    name = log.eval.task
    if log.status != "success" or log.results is None:
        why = log.error.message if log.error else "no results"
        raise RuntimeError(f"Inspect task {name} ended as {log.status!r}: {why}; its log is {log.location}")
    if log.results.completed_samples < log.results.total_samples:
        failed = log.results.total_samples - log.results.completed_samples
        raise RuntimeError(f"{failed} of {log.results.total_samples} samples of {name} failed; see {log.location}")
    return {
        "task": name,
        "version": log.eval.task_version,
        "dataset": log.eval.dataset.name,
        "arguments": log.eval.task_args,
        "metadata": log.eval.metadata,
        "samples": log.results.total_samples,
        "metrics": {
            f"{scored.name}/{name}": metric.value
            for scored in log.results.scores
            for name, metric in scored.metrics.items()
        },
        "log": Path(log.location).name,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
