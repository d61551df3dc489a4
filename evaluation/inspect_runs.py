"""Inspect tasks on a policy: our tasks with the dataset and the prompt of the policy, and any others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .inspect_tasks import TASKS, scijudge  # isort: skip, because it says what to install where Inspect is missing

import tinker
from inspect_ai.log import list_eval_logs, read_eval_log
from tinker_cookbook.eval.inspect_evaluators import InspectEvaluatorBuilder

PACKAGES = ("inspect_ai", "inspect_evals", "scisci_gym", "tinker_cookbook")


def tasks_of(
    names: Sequence[str], dataset: str, split: str, options: Mapping[str, Any], max_examples: int | None = None
) -> list[Any]:
    """Inspect tasks by name; those of this project become tasks over a dataset with the prompt of a policy.

    `dataset`, `split` and `options` are as in `SciSciBenchmark`; of the options those of the prompt count.
    `max_examples` are spread evenly over the split. Inspect looks up names that do not begin with ``scisci_gym/``.

    Raises `ValueError` if this project has no such task.
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
    limit: int | None = None,
) -> dict[str, Any]:
    """Run Inspect tasks, greedily, on a client that samples from a policy, through the cookbook's `InspectEvaluator`.

    Tasks have names as on Inspect's command line, such as ``"scisci_gym/disruption"`` or
    ``"inspect_evals/gpqa_diamond"``; of a task that is given by its name the first `limit` examples are asked. The logs
    of Inspect go into the folder, for ``inspect view``.

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
            temperature=0.0,
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
        "temperature": 0.0,
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
