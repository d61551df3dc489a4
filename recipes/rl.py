"""GRPO on any registered environment, through `tinker_cookbook.rl.train`.

::

    python -m scisci_gym.recipes.rl dataset=runs/data model_name=runs/model log_path=runs/rl env_options=prompt=short

Groups of rollouts of one prompt, advantages centred on the group's mean, importance sampling. Without an account the
local engine does the work; `engine=hosted` or `engine=URL` changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chz
import tinker
from tinker.types import LossFnType
from tinker_cookbook import checkpoint_utils
from tinker_cookbook.rl import train
from tinker_cookbook.stores.storage import storage_from_uri
from tinker_cookbook.stores.training_store import TrainingRunStore

from ..datasets.store import load_card
from ..envs.benchmarks import SciSciBenchmark, benchmark_name
from ..envs.groups import SciSciDatasetBuilder, renderer_of
from .checkpoints import state_path
from .evaluation.policy_scores import ValidationScores
from .models import learning_rate_for, renderer_name_for
from .options import parse_options
from .running import Recipe, RecipeConfig


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    groups_per_batch: int = 32
    group_size: int = 8
    max_steps: int = 100
    max_tokens: int = 1024
    temperature: float = 1.0
    loss_fn: LossFnType = "importance_sampling"
    loss_fn_config: dict[str, Any] | None = None
    num_substeps: int = 1
    kl_penalty_coef: float = 0.0
    kl_reference_checkpoint: str | None = None
    eval_every: int = 10
    save_every: int = 10
    validation_examples: int | None = 256
    held_out: int = 0
    num_groups_to_log: int = 1


def build_config(cfg: CLIConfig) -> train.Config:
    """The cookbook's configuration for ours. Reads the dataset folder's card, starts nothing."""
    load_card(cfg.dataset)
    renderer_name = renderer_name_for(cfg.model_name, cfg.renderer_name)
    options = parse_options(cfg.env, cfg.env_options)
    builder = SciSciDatasetBuilder(
        env_id=cfg.env,
        dataset=cfg.dataset,
        renderer_name=renderer_name,
        tokenizer_name=cfg.model_name,
        groups_per_batch=cfg.groups_per_batch,
        group_size=cfg.group_size,
        batches=cfg.max_steps,
        held_out=cfg.held_out,
        options=options,
        seed=cfg.seed,
    )
    reference = None
    if cfg.kl_penalty_coef > 0:
        start = state_path(cfg.kl_reference_checkpoint or cfg.load_checkpoint_path)
        reference = train.KLReferenceConfig(base_model=cfg.model_name, load_checkpoint_path=start)
    return train.Config(
        recipe_name=f"scisci_gym_rl_{cfg.env}",
        dataset_builder=builder,
        model_name=cfg.model_name,
        renderer_name=renderer_name,
        load_checkpoint_path=state_path(cfg.load_checkpoint_path),
        lora_rank=cfg.lora_rank,
        learning_rate=learning_rate_for(cfg.model_name, cfg.learning_rate),
        max_tokens=cfg.max_tokens,
        temperature=cfg.temperature,
        loss_fn=cfg.loss_fn,
        loss_fn_config=cfg.loss_fn_config,
        num_substeps=cfg.num_substeps,
        kl_penalty_coef=cfg.kl_penalty_coef,
        kl_reference_config=reference,
        evaluator_builders=[_validation(cfg, renderer_name, options)] if cfg.validation_examples != 0 else [],
        eval_every=cfg.eval_every,
        save_every=cfg.save_every,
        num_groups_to_log=cfg.num_groups_to_log,
        wandb_project=cfg.wandb_project,
        wandb_name=cfg.wandb_name,
        log_path=cfg.log_path,
    )


def _validation(cfg: CLIConfig, renderer_name: str, options: dict[str, Any]) -> Callable[[], ValidationScores]:
    benchmark = SciSciBenchmark(cfg.env, benchmark_name(cfg.env), cfg.dataset, "validation", options)

    def build() -> ValidationScores:
        renderer = renderer_of(renderer_name, cfg.model_name)
        return ValidationScores(benchmark, renderer, cfg.max_tokens, cfg.validation_examples)

    return build


async def _train(config: train.Config) -> None:
    await train.main(config)
    await _validate_final(config)


async def _validate_final(config: train.Config) -> None:
    """Evaluate the final weights too: the loop evaluates before a step, so its last checkpoint has no scores yet."""
    final = checkpoint_utils.get_last_checkpoint(config.log_path, required_key="sampler_path")
    if final is None or final.batch is None or not config.evaluator_builders:
        return
    store = TrainingRunStore(storage_from_uri(config.log_path))
    if any(row.get("step") == final.batch and "validation/macro_f1" in row for row in store.read_metrics()):
        return
    client = tinker.ServiceClient().create_sampling_client(base_model=config.model_name, model_path=final.sampler_path)
    evaluators = [build() for build in config.evaluator_builders]
    scores = await train.run_evaluations_parallel(evaluators, client, config, final.batch, store=store)
    store.write_metrics(scores, step=final.batch)


RECIPE = Recipe("rl", "GRPO on an environment.", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
