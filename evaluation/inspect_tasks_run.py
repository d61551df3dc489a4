"""A policy on Inspect tasks, ours or public, through the cookbook's `InspectEvaluator`; names and versions kept."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tinker

PACKAGES = ("inspect_ai", "inspect_evals", "scisci_gym", "tinker_cookbook")


def tasks_of(
    names: Sequence[str], dataset: str, split: str, options: Mapping[str, Any], max_examples: int | None = None
) -> list[Any]:
    """Names of Inspect tasks, those of ours replaced by tasks over a dataset with the prompt that a policy knows.

    Parameters
    ----------
    names : sequence of str
    dataset, split, options
        As in `SciSciBenchmark`; of the options those of the prompt.
    max_examples : int or None
        Of tasks of ours, spread evenly over the split.

    Raises
    ------
    ImportError
        If Inspect is not installed.
    ValueError
        If there is no such task of ours; names of others are looked up by Inspect.
    """
    try:
        ours = importlib.import_module("scisci_gym.evaluation.inspect_tasks")
    except ImportError as error:
        raise ImportError("Inspect tasks need inspect-ai: pip install 'scisci-gym[inspect]'") from error
    known = {name: value for name, value in options.items() if name in ("prompt", "references")}
    found: list[Any] = []
    for name in names:
        package, _, task = name.rpartition("/")
        if package != "scisci_gym":
            found.append(name)
        elif task == "scijudge":
            found.append(ours.scijudge(max_examples=max_examples))
        elif task in ours.TASKS:
            found.append(ours.TASKS[task](dataset=dataset, split=split, max_examples=max_examples, **known))
        else:
            raise ValueError(f"no Inspect task {name}; there are scijudge, {', '.join(sorted(ours.TASKS))}")
    return found


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
    """Run Inspect tasks on a sampling client.

    Parameters
    ----------
    tasks : sequence of str or inspect_ai.Task
        Names as on Inspect's command line, such as ``"scisci_gym/disruption"`` or ``"inspect_evals/gpqa_diamond"``.
    client, model_name, renderer_name
        As in `evaluate_policy`.
    folder : Path
        Inspect's logs go here, for ``inspect view``.
    limit : int or None
        First examples of each task that is given by its name.

    Returns
    -------
    dict, ready for JSON: ``packages`` (versions) and ``tasks``: for each its name, version, dataset, number of samples,
    metrics, and the log it stands in.

    Raises
    ------
    ImportError
        If Inspect is not installed.
    RuntimeError
        If a task did not finish, or some of its samples failed: such samples are not wrong answers, and Inspect leaves
        them out of its averages.

    Notes
    -----
    The cookbook's adapter tells Inspect that every answer ended by itself. An answer that is cut off right behind its
    closing tag counts here, and not in `run_benchmark`.
    """
    try:
        evaluators = importlib.import_module("tinker_cookbook.eval.inspect_evaluators")
        logs = importlib.import_module("inspect_ai.log")
    except ImportError as error:
        raise ImportError("Inspect tasks need inspect-ai: pip install 'scisci-gym[inspect]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    before = {entry.name for entry in logs.list_eval_logs(str(folder))}
    # Inspect takes a list of names or a list of tasks, not both.
    by_name = [task for task in tasks if isinstance(task, str)]
    made = [task for task in tasks if not isinstance(task, str)]
    for batch in filter(None, (by_name, made)):
        config = evaluators.InspectEvaluatorBuilder(
            tasks=batch,
            renderer_name=renderer_name,
            model_name=model_name,
            max_tokens=max_tokens,
            temperature=temperature,
            limit=limit if batch is by_name else None,
            log_dir=str(folder),
            log_level="warning",
        )
        await config()(client)
    written = [entry for entry in logs.list_eval_logs(str(folder)) if entry.name not in before]
    found = [_entry(logs.read_eval_log(entry, header_only=True)) for entry in written]
    if len(found) != len(tasks):
        raise RuntimeError(f"{len(found)} of {len(tasks)} tasks left a log in {folder}: {[f['task'] for f in found]}")
    return {
        "packages": {name: _version(name) for name in PACKAGES},
        "max_tokens": max_tokens,
        "temperature": temperature,
        "limit": limit,
        "tasks": sorted(found, key=lambda entry: entry["task"]),
    }


def _entry(log: Any) -> dict[str, Any]:
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
