"""`scisci-gym eval RUN`: the best checkpoint of a run against the baselines, on the papers it has not seen."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ...envs.registry import spec
from ..checkpoints import chosen_checkpoint
from ..engines import open_engine
from ..models import renderer_name_for
from ..monitoring.atomic_files import write_json_atomically
from ..monitoring.recorded import describe_run
from ..monitoring.run_record import RECORD
from ..options import parse_options
from .evaluate import Policy, PolicyResult, Task, evaluate_baselines, evaluate_policy
from .scores import Scores


def task_of(run: Path, dataset: str | None = None) -> tuple[Task, dict[str, Any]]:
    """The task that a run was trained on, from its `run.json`, and the configuration it was trained with.

    Raises
    ------
    FileNotFoundError
        If the folder is not the folder of a run.
    """
    path = run / RECORD
    if not path.is_file():
        raise FileNotFoundError(f"{run} is not a run: {path} is missing; give the log_path of a training run")
    config = json.loads(path.read_text())["config"]
    model = config["model_name"]
    task = Task(
        env=config["env"],
        options=parse_options(config["env"], config["env_options"]),
        dataset=dataset or config["dataset"],
        model_name=model,
        renderer_name=renderer_name_for(model, config["renderer_name"]),
        # An SFT run generates nothing while it trains; its answers are as long as its targets.
        max_tokens=config.get("max_tokens", 1024),
    )
    return task, config


def evaluate_run(
    run: Path, *, split: str = "test", dataset: str | None = None, engine: str | None = None, seed: int = 0
) -> tuple[PolicyResult, dict[str, Scores]]:
    """Evaluate a run and write what is found to `eval_SPLIT.json` in its folder, its record and the register.

    The checkpoint is the best one on validation papers, or the last one of a run without validation. Answers are kept
    below `eval/` in the run's folder: a second call asks only what is missing.
    """
    task, config = task_of(run, dataset)
    checkpoint = chosen_checkpoint(run)
    keep = run / "eval" / f"{split}-{checkpoint.name}"
    with open_engine(engine or config["engine"], config["checkpoints"], seed):
        policy = Policy(f"{run.name} (step {checkpoint.step})", checkpoint.sampler_path)
        result = asyncio.run(evaluate_policy(task, policy, split, seed, keep))
    baselines = evaluate_baselines(task.dataset, spec(task.env).labels, seed, split)
    found = {
        "task": vars(task),
        "split": split,
        "checkpoint": checkpoint.sampler_path,
        "policy": result.to_json(),
        "baselines": {name: scores.to_json() for name, scores in baselines.items()},
    }
    write_json_atomically(run / f"eval_{split}.json", found)
    describe_run(run)
    return result, baselines
