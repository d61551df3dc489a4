"""Direct preference optimisation (Rafailov et al. 2023) on pairs that an environment's grading makes.

::

    python -m scisci_gym.recipes.dpo dataset=runs/data model_name=runs/model log_path=runs/dpo pairs=sampled

`pairs=gold` sets right answers against wrong ones; `pairs=sampled` takes both from the policy itself.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import chz
from tinker_cookbook.preference import train_dpo
from tinker_cookbook.supervised.types import ChatDatasetBuilderCommonConfig
from tinker_cookbook.utils.lr_scheduling import LRSchedule

from ..envs.kit.renderers import registered_name
from ..envs.registry import spec
from .kit.compat import dpo_reference_of_the_start
from .kit.config import RecipeConfig
from .kit.pairs import StoredPairs, store_pairs
from .kit.recipe import Recipe
from .kit.validation import validation_builders


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    pairs: Literal["gold", "sampled"] = chz.field(
        default="gold", doc="Pairs of right and wrong answers, or of the policy's own best-paid and worst-paid answers."
    )
    rollouts_per_example: int = chz.field(default=8, doc="Answers to each example with pairs=sampled.")
    rows: int | None = chz.field(default=None, doc="Training examples to use; None for all.")
    dpo_beta: float = chz.field(default=0.1, doc="Beta of the DPO loss.")
    lr_schedule: LRSchedule = chz.field(default="linear", doc="How the learning rate falls.")
    num_epochs: int = chz.field(default=1, doc="Passes over the pairs.")
    batch_size: int = chz.field(default=32, doc="Pairs of an update.")
    max_length: int | None = chz.field(default=32768, doc="Longest conversation in tokens; longer ones are cut.")


def build_config(cfg: CLIConfig) -> train_dpo.Config:
    """The cookbook's configuration of these options."""
    shared = cfg.loop("dpo")
    spec(cfg.env)
    common = ChatDatasetBuilderCommonConfig(
        model_name_for_tokenizer=cfg.model_name,
        renderer_name=registered_name(cfg.renderer()),
        max_length=cfg.max_length,
        batch_size=cfg.batch_size,
    )
    return train_dpo.Config(
        **shared,
        dataset_builder=StoredPairs(
            common_config=common, log_path=cfg.log_path, batch_size=cfg.batch_size, max_length=cfg.max_length
        ),
        lr_schedule=cfg.lr_schedule,
        num_epochs=cfg.num_epochs,
        dpo_beta=cfg.dpo_beta,
        evaluator_builders=[*validation_builders(cfg)],
        eval_every=cfg.eval_every if cfg.validation_examples != 0 else 0,
        infrequent_eval_every=0,
    )


async def _train(cfg: CLIConfig, config: train_dpo.Config) -> None:
    sampled = cfg.rollouts_per_example if cfg.pairs == "sampled" else 0
    await store_pairs(cfg, config.load_checkpoint_path, cfg.rows, sampled)
    with dpo_reference_of_the_start():
        # The cookbook's DPO step starts event loops of its own, which it cannot do inside this one.
        await asyncio.to_thread(train_dpo.main, config)


RECIPE = Recipe("dpo", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
