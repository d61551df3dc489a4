"""On-policy distillation: the student answers, a larger teacher says how likely each of its tokens was.

::

    python -m scisci_gym.recipes.distill dataset=runs/data model_name=runs/model log_path=runs/distilled \\
        teacher_model=runs/big-model teacher=runs/rl-of-the-big-model

The reverse KL between student and teacher is the only reward, unless `env_rewards=true` adds the environment's. Student
and teacher must have the same tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import chz
from tinker_cookbook.distillation import train_on_policy
from tinker_cookbook.distillation.datasets import DistillationDatasetConfig, TeacherConfig
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, Metrics, RLDataset, RLDatasetBuilder, Trajectory
from tinker_cookbook.tokenizer_utils import get_tokenizer

from ..envs.training.groups import SciSciDatasetBuilder, SciSciGroupBuilder
from .kit.checkpoints import last_checkpoint
from .kit.compat import prepare_rl_resume
from .kit.config import RecipeConfig, folder_or_name
from .kit.recipe import Recipe
from .kit.validation import validation_builders


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    teacher_model: str = chz.field(
        munger=folder_or_name, doc="Base model of the teacher, with the tokenizer of the student."
    )
    teacher: str | None = chz.field(
        default=None,
        munger=folder_or_name,
        doc="Its weights: a tinker:// path to sample from, or the log_path of its run; None for the base model.",
    )
    env_rewards: bool = chz.field(default=False, doc="Whether the rewards of the environment are added.")
    groups_per_batch: int = chz.field(default=32, doc="Prompts of an update.")
    group_size: int = chz.field(default=4, doc="Rollouts of each prompt.")
    max_steps: int = chz.field(default=100, doc="Updates.")
    temperature: float = chz.field(default=1.0, doc="Sampling temperature of the rollouts.")
    kl_penalty_coef: float = chz.field(default=1.0, doc="Weight of the KL divergence from the teacher.")
    kl_discount_factor: float = chz.field(
        default=0.0, doc="Discount of the divergences of later tokens in a token's advantage; 0 for none of them."
    )


@dataclass(frozen=True)
class UnrewardedGroupBuilder(SciSciGroupBuilder):
    """A group whose episodes are graded and earn nothing: it logs the same metrics, and every reward is 0."""

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        graded = await super().compute_group_rewards(trajectory_group, env_group)
        earned = [sum(step.reward for step in trajectory.transitions) for trajectory in trajectory_group]
        return [(-reward, metrics) for reward, (_, metrics) in zip(earned, graded, strict=True)]


class UnrewardedDataset(RLDataset):
    """The batches of another dataset, without rewards."""

    def __init__(self, inner: RLDataset):
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        return [UnrewardedGroupBuilder(**vars(builder)) for builder in self.inner.get_batch(index)]


@chz.chz
class PromptsBuilder(RLDatasetBuilder):
    """Training batches of an environment, with or without its rewards."""

    inner: SciSciDatasetBuilder
    rewarded: bool

    async def __call__(self) -> tuple[RLDataset, RLDataset | None]:
        train, _ = await self.inner()
        return (train if self.rewarded else UnrewardedDataset(train)), None


def build_config(cfg: CLIConfig) -> train_on_policy.Config:
    """The cookbook's configuration of these options.

    Raises `ValueError` if student and teacher have different tokenizers: the teacher would score other tokens than the
    student wrote.
    """
    shared = cfg.loop("distill")
    if get_tokenizer(cfg.teacher_model).get_vocab() != get_tokenizer(cfg.model_name).get_vocab():
        raise ValueError(
            f"teacher {cfg.teacher_model} and student {cfg.model_name} have different tokenizers; choose a teacher of "
            "the student's family"
        )
    groups = cfg.groups_per_batch
    prompts = SciSciDatasetBuilder(
        **cfg.prompts(), groups_per_batch=groups, group_size=cfg.group_size, batches=cfg.max_steps, held_out=0
    )
    teacher = cfg.teacher
    if teacher is not None and "://" not in teacher:
        teacher = last_checkpoint(teacher, "sampler_path")
    return train_on_policy.Config(
        **shared,
        dataset_configs=[
            DistillationDatasetConfig(
                dataset_builder=PromptsBuilder(inner=prompts, rewarded=cfg.env_rewards),
                teacher_config=TeacherConfig(base_model=cfg.teacher_model, load_checkpoint_path=teacher),
                groups_per_batch=groups,
            )
        ],
        max_tokens=cfg.max_tokens,
        temperature=cfg.temperature,
        kl_penalty_coef=cfg.kl_penalty_coef,
        kl_discount_factor=cfg.kl_discount_factor,
        evaluator_builders=[*validation_builders(cfg)],
        eval_every=cfg.eval_every,
        max_steps=cfg.max_steps,
    )


async def _train(cfg: CLIConfig, config: train_on_policy.Config) -> None:
    prepare_rl_resume(cfg.log_path)
    await train_on_policy.main(config)


RECIPE = Recipe("distill", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
