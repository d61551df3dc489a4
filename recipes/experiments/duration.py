"""How long the training of a study will take, by the time that earlier runs of the same model took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chz

from ..monitoring.record import read_run_record
from ..monitoring.register import read_register
from .plan import StudyPlan
from .runner import is_finished, steps_of


@dataclass(frozen=True)
class TrainingLeft:
    """What is left to train: runs, updates, and the seconds that this takes.

    `seconds` counts the recipes of which there are earlier runs; `unknown` names the others, and `sources` those runs.
    """

    runs: int
    updates: int
    seconds: float
    unknown: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def time(self) -> str:
        """The time in words."""
        if not self.sources:
            return "no earlier run of this model tells how long that takes; the time left is shown as soon as one does"
        about = f"{self.seconds / 3600:.1f} h" if self.seconds > 5400 else f"{max(1, round(self.seconds / 60))} min"
        without = f" without {', '.join(self.unknown)}, of which there is no run yet" if self.unknown else ""
        return f"about {about}{without}"


def training_left(plan: StudyPlan, out: Path) -> TrainingLeft:
    """What a study in `out` has still to train.

    A run takes as long for each sample (a rollout of RL, a row of SFT or DPO) as the runs of its recipe on the same
    model and environment took; those that the registers beside the model and the study name, and those of the study
    itself. Validation is in that time, the comparison at the end of the study is not.
    """
    configs = [plan.config(out, arm, seed) for arm in plan.trained for seed in plan.seeds]
    recipes = [str(arm.recipe) for arm in plan.trained for _ in plan.seeds]
    left = [
        (recipe, cfg) for recipe, cfg in zip(recipes, configs, strict=True) if not is_finished(Path(cfg.log_path), cfg)
    ]
    folders = {out.absolute().parent}
    for cfg in configs:
        folders |= {Path(cfg.log_path).parent, Path(cfg.model_name).parent if Path(cfg.model_name).is_dir() else out}
    seconds, samples, sources = Counter[str](), Counter[str](), []
    for path, updates in (run for folder in sorted(folders) for run in _runs(folder)):
        record = read_run_record(path)
        recipe, config = record["recipe"], record["config"]
        alike = (config.get("model_name"), config.get("env")) in {(cfg.model_name, cfg.env) for _, cfg in left}
        if alike and updates and record["seconds"] and recipe in recipes:
            seconds[recipe] += record["seconds"]
            samples[recipe] += updates * _samples_per_update(config)
            sources.append(str(path))
    known = [(recipe, cfg) for recipe, cfg in left if recipe in seconds]
    return TrainingLeft(
        runs=len(left),
        updates=sum(steps_of(cfg) for _, cfg in left),
        seconds=sum(
            seconds[recipe] / samples[recipe] * steps_of(cfg) * _samples_per_update(chz.asdict(cfg))
            for recipe, cfg in known
        ),
        unknown=tuple(dict.fromkeys(recipe for recipe, _ in left if recipe not in seconds)),
        sources=tuple(sources),
    )


def _runs(folder: Path) -> Iterator[tuple[Path, int]]:
    """Folder and updates of the runs in a register that are still there."""
    for name, entry in read_register(folder).items():
        if (folder / name / "run.json").is_file():
            yield folder / name, int(entry.get("step") or 0)


def _samples_per_update(config: Mapping[str, Any]) -> int:
    if config.get("groups_per_batch"):
        return int(config["groups_per_batch"]) * int(config["group_size"])
    return int(config.get("batch_size") or 1)
