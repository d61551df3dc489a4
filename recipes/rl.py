"""GRPO on any registered environment, through `tinker_cookbook.rl.train`.

::

    python -m scisci_gym.recipes.rl dataset=runs/data model_name=runs/model log_path=runs/rl env_options=prompt=short

Groups of rollouts of one prompt, advantages centred on the group's mean, importance sampling. Without an account the
local engine does the work; `engine=hosted` or `engine=URL` changes nothing else.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import chz
from tinker.types import LossFnType
from tinker_cookbook.rl import train

from ..datasets.store import load_card
from ..envs.training.groups import OrderMaker, SciSciDatasetBuilder
from .kit.checkpoints import settle_rl_resume, state_path
from .kit.compat import Rollouts, metrics_of_all_groups, rollout_executor
from .kit.config import RecipeConfig, folder_or_name
from .kit.order import Balance, Curriculum, CurriculumOrder, balanced_order, measure_pass_rates
from .kit.recipe import Recipe
from .kit.validation import held_out_nll, validation_builders


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    groups_per_batch: int = 32
    group_size: int = 8
    max_steps: int = 100
    temperature: float = 1.0
    loss_fn: LossFnType = "importance_sampling"
    loss_fn_config: dict[str, Any] | None = None
    num_substeps: int = 1
    # A penalty for leaving a reference: where training starts from, unless another checkpoint or run is named.
    kl_penalty_coef: float = 0.0
    kl_reference_checkpoint: str | None = chz.field(default=None, munger=folder_or_name)
    # Leave groups with equal rewards out of the update. Metrics stay those of all groups; groups/removed counts them.
    remove_constant_reward_groups: bool = False
    # Which papers when. Labels by turns (equal), or more often as the policy stops naming them (adaptive, at every
    # evaluation); or easy papers first, by distance from the label boundary or by pass rate.
    balance_labels: Balance = "off"
    curriculum: Curriculum = "none"
    pass_rate_attempts: int = 8
    # Sampling ahead of training by at most so many updates; None: strictly on-policy.
    max_steps_off_policy: int | None = None
    # Training on the first groups of a batch while the last ones are sampled, in so many parts.
    num_minibatches: int | None = None
    # Where episodes run: this process, worker processes, or a Ray cluster.
    rollouts: Rollouts = "local"
    rollout_workers: int = 4
    # Validation examples that are sampled like training ones (temperature, one rollout each) at every evaluation.
    held_out: int = 0
    # At every evaluation also the NLL of the gold answers to validation papers, logged as held_out/nll.
    held_out_nll: bool = False
    num_groups_to_log: int = 1


def build_config(cfg: CLIConfig) -> train.Config:
    """The cookbook's configuration for ours. Reads the dataset folder's card, starts nothing.

    Raises
    ------
    ValueError
        If options contradict each other or name something that does not exist.
    """
    load_card(cfg.dataset)
    if cfg.max_steps_off_policy is not None and cfg.num_minibatches is not None:
        raise ValueError("max_steps_off_policy and num_minibatches exclude each other: asynchronous or streaming")
    reference = None
    if cfg.kl_penalty_coef > 0:
        start = state_path(cfg.kl_reference_checkpoint or cfg.load_checkpoint_path)
        reference = train.KLReferenceConfig(base_model=cfg.model_name, load_checkpoint_path=start)
    return train.Config(
        recipe_name=f"scisci_gym_rl_{cfg.env}",
        dataset_builder=_dataset(cfg),
        model_name=cfg.model_name,
        renderer_name=cfg.renderer(),
        load_checkpoint_path=state_path(cfg.load_checkpoint_path),
        lora_rank=cfg.lora_rank,
        learning_rate=cfg.rate(),
        max_tokens=cfg.max_tokens,
        temperature=cfg.temperature,
        loss_fn=cfg.loss_fn,
        loss_fn_config=cfg.loss_fn_config,
        num_substeps=cfg.num_substeps,
        kl_penalty_coef=cfg.kl_penalty_coef,
        kl_reference_config=reference,
        remove_constant_reward_groups=cfg.remove_constant_reward_groups,
        async_config=None
        if cfg.max_steps_off_policy is None
        else train.AsyncConfig(max_steps_off_policy=cfg.max_steps_off_policy, groups_per_batch=cfg.groups_per_batch),
        stream_minibatch_config=None
        if cfg.num_minibatches is None
        else train.StreamMinibatchConfig(groups_per_batch=cfg.groups_per_batch, num_minibatches=cfg.num_minibatches),
        evaluator_builders=[*validation_builders(cfg), *([held_out_nll(cfg)] if cfg.held_out_nll else [])],
        eval_every=cfg.eval_every,
        save_every=cfg.save_every,
        num_groups_to_log=cfg.num_groups_to_log,
        wandb_project=cfg.wandb_project,
        wandb_name=cfg.wandb_name,
        log_path=cfg.log_path,
    )


def _dataset(cfg: CLIConfig) -> SciSciDatasetBuilder:
    return SciSciDatasetBuilder(
        env_id=cfg.env,
        dataset=cfg.dataset,
        renderer_name=cfg.renderer(),
        tokenizer_name=cfg.model_name,
        groups_per_batch=cfg.groups_per_batch,
        group_size=cfg.group_size,
        batches=cfg.max_steps,
        held_out=cfg.held_out,
        options=cfg.options(),
        seed=cfg.seed,
        order=_order(cfg),
    )


def _order(cfg: CLIConfig) -> OrderMaker | None:
    if cfg.balance_labels == "adaptive" and not (cfg.validation_examples != 0 and cfg.eval_every):
        raise ValueError("balance_labels=adaptive goes by answers to validation papers; turn validation on")
    if cfg.curriculum == "none":
        return balanced_order(cfg.balance_labels, cfg.env, cfg.groups_per_batch, cfg.log_path)
    if cfg.balance_labels != "off":
        raise ValueError("curriculum and balance_labels exclude each other: one thing decides the order of papers")
    return CurriculumOrder(cfg.curriculum, cfg.env, cfg.groups_per_batch, cfg.log_path)


async def _train(cfg: CLIConfig, config: train.Config) -> None:
    if cfg.curriculum == "pass_rate":
        await measure_pass_rates(
            cfg.log_path,
            env_id=cfg.env,
            options=cfg.options(),
            dataset=cfg.dataset,
            model_name=cfg.model_name,
            renderer_name=cfg.renderer(),
            start=config.load_checkpoint_path,
            attempts=cfg.pass_rate_attempts,
            max_tokens=cfg.max_tokens,
            seed=cfg.seed,
        )
    settle_rl_resume(cfg.log_path)
    every_group = metrics_of_all_groups() if cfg.remove_constant_reward_groups else nullcontext()
    with every_group, rollout_executor(cfg.rollouts, cfg.rollout_workers) as executor:
        await train.main(config, rollout_executor=executor)


RECIPE = Recipe("rl", "GRPO on an environment.", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
