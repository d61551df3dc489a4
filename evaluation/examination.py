"""One policy under examination by the probes: variants of a benchmark, and where the answers to them are kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tinker
from tinker_cookbook.eval.benchmarks import StoredTrajectory, load_trajectories
from tinker_cookbook.renderers import Renderer

from ..envs.integrations.cookbook_benchmarks import SciSciBenchmark
from ..envs.kit.base import SciSciEnv
from ..envs.training.groups import renderer_of
from .ask import Answer, Task, ask


class VariantBenchmark(SciSciBenchmark):
    """The questions of `base` in order, each changed by `change`: environment -> one with the same gold label."""

    def __init__(self, base: SciSciBenchmark, change: Callable[[SciSciEnv], SciSciEnv]):
        super().__init__(base.env_id, base.name, base.dataset, base.split, base.options)
        self.base, self.change = base, change

    def episodes(self, max_examples: int | None = None) -> list[SciSciEnv]:
        return [self.change(env) for env in self.base.episodes(max_examples)]


@dataclass(frozen=True)
class Examination:
    """A policy, a task, a split, and a folder. Answers are greedy; those found in the folder are not asked again.

    The folder has a folder for each variant of the questions ("arm"); `main` is the one, if there is one, in which
    greedy answers to the unchanged task are kept already. `max_examples` are spread evenly over the split; None for
    all. The `seed` is that of the bootstrap.
    """

    task: Task
    client: tinker.SamplingClient
    folder: Path
    split: str = "test"
    max_examples: int | None = None
    seed: int = 0
    main: Path | None = None

    @property
    def renderer(self) -> Renderer:
        return renderer_of(self.task.renderer_name, self.task.model_name)

    @property
    def settings(self) -> dict[str, Any]:
        """What every probe reports about the task."""
        task = {name: getattr(self.task, name) for name in ("env", "options", "dataset", "max_tokens")}
        return {**task, "split": self.split}

    def benchmark(self) -> SciSciBenchmark:
        return self.task.benchmark(self.split)

    def with_options(self, env: str, **options: Any) -> Examination:
        return replace(self, task=replace(self.task, env=env, options=options), main=None)

    def answers_folder(self, arm: str, settings: str = "") -> Path:
        """Where the answers of an arm are kept. Another dataset, option or limit is another folder."""
        if arm == "main" and self.main is not None:
            return self.main
        options = {name: repr(value) for name, value in self.task.options.items()}
        key = {**self.settings, "options": options, "settings": settings}
        digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=6).hexdigest()
        return self.folder / f"{arm}-{digest}"

    async def ask(
        self,
        arm: str = "main",
        benchmark: SciSciBenchmark | None = None,
        settings: str = "",
        max_tokens: int | None = None,
        temperature: float = 0.0,
    ) -> list[Answer]:
        """Answers to a benchmark, by default the task's own, of at most `max_tokens`, by default those of the task.

        `arm` and `settings` say what is different in this benchmark. They decide where the answers are kept.
        """
        return await ask(
            benchmark or self.benchmark(),
            self.client,
            self.renderer,
            max_tokens=max_tokens or self.task.max_tokens,
            temperature=temperature,
            max_examples=self.max_examples,
            save_dir=self.answers_folder(arm, settings),
        )

    def stored(self, arm: str, benchmark: SciSciBenchmark, settings: str = "") -> list[StoredTrajectory]:
        """Whole episodes of an arm that was asked, in the benchmark's order."""
        stored = load_trajectories(str(self.answers_folder(arm, settings)), benchmark.name)
        by_id = {episode.example_id: episode for episode in stored}
        return [by_id[env.example_id] for env in benchmark.episodes(self.max_examples)]
