"""Every environment as a benchmark of the cookbook's eval registry: `run_benchmark("scisci_disruption", ...)`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinker_cookbook.eval.benchmarks import BenchmarkBuilder, BenchmarkConfig, BenchmarkResult, register
from tinker_cookbook.renderers import Message, Renderer
from tinker_cookbook.rl.message_env import MessageEnv, MessageStepResult
from tinker_cookbook.rl.types import Env

from ..compat import EARLY_END_METRICS
from ..registry import make, spec
from .registration import benchmark_name, env_ids

if TYPE_CHECKING:
    from ..kit.base import SciSciEnv

DATASET_VARIABLE = "SCISCI_GYM_DATASET"


class GradedEnv(MessageEnv):
    """An environment for the benchmark runner, which counts a positive reward as correct: 1 or 0, and metrics."""

    def __init__(self, env: SciSciEnv, system_prompt: str | None = None):
        self.env, self.system_prompt = env, system_prompt
        self.example_id = env.example_id
        self.reward = 0.0

    async def initial_observation(self) -> list[Message]:
        return self._with_system(await self.env.initial_observation())

    async def step(self, message: Message) -> MessageStepResult:
        result = await self.env.step(message)
        self.reward += result.reward
        if not result.episode_done:
            return dataclasses.replace(result, reward=0.0, next_messages=self._with_system(result.next_messages))
        metrics = {**result.metrics, "env_reward": self.reward}
        return dataclasses.replace(result, reward=float(bool(result.metrics.get("correct"))), metrics=metrics)

    def _with_system(self, messages: list[Message]) -> list[Message]:
        if self.system_prompt is None:
            return messages
        return [Message(role="system", content=self.system_prompt), *messages]


class SciSciBenchmark(BenchmarkBuilder):
    """The held-out papers of a dataset as a benchmark.

    The dataset is a folder that `scisci-gym build` wrote; None: the environment variable `SCISCI_GYM_DATASET`. `name`
    is that in the cookbook's registry; None: `benchmark_name`. `options` are keyword options of the environment.
    """

    def __init__(
        self,
        env_id: str,
        name: str | None = None,
        dataset: str | None = None,
        split: str = "test",
        options: dict[str, Any] | None = None,
    ):
        self.env_id, self.dataset, self.split = env_id, dataset, split
        self.name = name or benchmark_name(env_id)
        self.options = options or {}
        self.made_with: dict[str, Any] = {}
        """`env_options` of the environments that `episodes` returned last."""
        self._floor: float | None = None

    def folder(self) -> str:
        """The dataset: the one that was named, or that of the environment variable.

        Raises `ValueError` if there is neither.
        """
        folder = self.dataset or os.environ.get(DATASET_VARIABLE)
        if not folder:
            raise ValueError(
                f"benchmark {self.name} needs a dataset: set {DATASET_VARIABLE} to a folder that `scisci-gym build` "
                f"wrote, or pass SciSciBenchmark({self.env_id!r}, {self.name!r}, dataset=...)"
            )
        return folder

    def episodes(self, max_examples: int | None = None) -> list[SciSciEnv]:
        """One environment for every example, in publication order.

        Raises `ValueError` if no dataset is named, or the split has no example of this environment.
        """
        # Imported here: making a benchmark, as the cookbook's registry has it, must cost nothing.
        from ...datasets.store import load_papers

        folder = self.folder()
        env_class = spec(self.env_id)
        examples = env_class.benchmark_examples(load_papers(folder, self.split))
        if not examples:
            raise ValueError(
                f"benchmark {self.name}: no paper of {folder} ({self.split}) has the label that {self.env_id} grades "
                "against"
            )
        if max_examples is not None and max_examples < len(examples):
            # Evenly spread over time, not the oldest ones; and whole questions, such as both orders of a pair.
            size = env_class.presentations
            questions, wanted = len(examples) // size, max(1, max_examples // size)
            starts = [at * questions // wanted * size for at in range(wanted)]
            examples = [example for start in starts for example in examples[start : start + size]]
        self.made_with = self.env_options()
        envs = [make(self.env_id, *example, **self.made_with) for example in examples]
        # That of the environments, which may depend on the prior of the dataset.
        self._floor = envs[0].reward_range[0]
        return envs

    def env_options(self) -> dict[str, Any]:
        """What every environment is made with: `options`, beside those that follow from the training papers."""
        return {**spec(self.env_id).training_options(str(self.folder())), **self.options}

    def make_envs(self, renderer: Renderer, config: BenchmarkConfig) -> Sequence[Env]:
        from ..training.groups import token_env

        envs = self.episodes(config.max_examples)
        return [token_env(GradedEnv(env, config.system_prompt), renderer, floor=0.0) for env in envs]

    def aggregate(self, rewards: list[float], metrics_list: list[dict[str, float | int]]) -> BenchmarkResult:
        result = super().aggregate(rewards, metrics_list)
        env_class = spec(self.env_id)
        # An episode that was cut off has no metrics: it counts as the worst, instead of being left out of the average.
        floor = env_class.reward_range[0] if self._floor is None else self._floor
        missing = {"env_reward": floor, **env_class.ungraded}
        for name in sorted({name for metrics in metrics_list for name in metrics} | set(missing)):
            # Other metrics are about the episodes that have them, such as `challenge_truth/correct`.
            default = missing.get(name, 0.0 if name in EARLY_END_METRICS else None)
            values = [metrics.get(name, default) for metrics in metrics_list]
            present = [value for value in values if value is not None]
            if present:
                result.metrics[name] = sum(present) / len(present)
        return result


# Whoever imports the cookbook's registry after `scisci_gym` causes this module to be imported.
for _env_id in env_ids():
    register(SciSciBenchmark(_env_id))
