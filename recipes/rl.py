"""GRPO on any registered environment, through `tinker_cookbook.rl.train`.

::

    python -m scisci_gym.recipes.rl dataset=runs/data model_name=runs/model log_path=runs/rl env_options=prompt=short

The policy answers each prompt with a group of rollouts; advantages are rewards minus the group's mean, and the loss is
importance sampling. Without an account the local engine trains; only `engine=` changes for another one.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import chz
from tinker.types import LossFnType
from tinker_cookbook.rl import train

from ..datasets.store import load_card, load_papers
from ..envs.kit.base import SciSciEnv
from ..envs.kit.cards import class_shares
from ..envs.registry import spec
from ..envs.training.groups import OrderMaker, SciSciDatasetBuilder
from ..envs.training.order import Balanced, LabelOrder, Proportional
from .kit.checkpoints import state_path
from .kit.compat import metrics_of_all_groups, prepare_rl_resume
from .kit.config import RecipeConfig, folder_or_name, suited
from .kit.order import AdaptiveOrder, Balance, Curriculum, CurriculumOrder, measure_pass_rates
from .kit.recipe import Recipe
from .kit.rollouts import Rollouts, rollout_executor
from .kit.validation import held_out_nll, validation_builders

# Defaults of a tiny model.
RARE = 0.5
"""A label is rare if fewer papers have it than this share of an equal share."""


def _groups(config: Any) -> int:
    """More where the answer is probabilities and one of the labels is rare: among 16 papers too few would have it."""
    env_class = spec(config.env)
    if env_class.asks_for != "probabilities":
        return 16
    return 32 if _training_facts(config).rarest < RARE / len(env_class.labels) else 16


def _substeps(config: Any) -> int:
    if config.max_steps_off_policy is not None or config.num_minibatches is not None:
        return 1
    groups = config.groups_per_batch
    return groups // 8 if groups >= 16 and groups % 8 == 0 else math.gcd(2, groups)


def _one_label(config: Any) -> bool:
    """Whether the task asks for one of a few labels, in a single turn."""
    env_class = spec(config.env)
    return env_class.asks_for == "label" and not env_class.label_parts and env_class.turns == 1


def _max_steps(config: Any) -> int:
    """40 where one label about one paper is asked for, 80 for any other answer."""
    return 40 if _one_label(config) and not spec(config.env).drawn else 80


def _kl_penalty(config: Any) -> float:
    """0; more where the answer is more than one label. Without it, a part of the answer that is the same for all papers
    takes over, and no other is tried again: the best single number of `cd-forecast-v1` in four steps.

    A policy that knows nothing earns most by giving all labels nearly the same probability, and has to unlearn that as
    it begins to read. So for probabilities the coefficient is larger: a tenth of the range of rewards, which for rare
    labels is wide."""
    env_class = spec(config.env)
    if env_class.asks_for == "probabilities":
        return round(0.1 * _training_facts(config).reward_span, 3)
    return 0.0 if _one_label(config) else 0.1


class _TrainingFacts(NamedTuple):
    """What defaults follow from: the share of the rarest label, and best reward minus floor."""

    rarest: float
    reward_span: float


def _training_facts(config: Any) -> _TrainingFacts:
    """The facts of a run's training papers; equal shares and the environment's own range where there is no dataset."""
    hashed = load_card(config.dataset)["content_hash"] if (Path(config.dataset) / "card.json").is_file() else None
    return _facts_of(spec(config.env), config.dataset, hashed)


@lru_cache(maxsize=8)
def _facts_of(env_class: type[SciSciEnv], dataset: str, content_hash: str | None) -> _TrainingFacts:
    """`_training_facts`, which more than one default asks for, once for each content of a dataset."""
    floor, best = env_class.reward_range
    papers = load_papers(dataset, "train") if content_hash is not None else []
    paper = next((paper for paper in papers if env_class.has_label(paper)), None)
    if paper is None:
        return _TrainingFacts(1 / len(env_class.labels), best - floor)
    floor, best = env_class(paper, **env_class.training_options(dataset)).reward_range
    return _TrainingFacts(min(class_shares(env_class, papers).values()), best - floor)


def _balance(config: Any) -> Balance:
    """A policy that answers with labels sees them equally often: the most frequent one would take over at once.

    Where it answers with probabilities, equal shares would teach it wrong ones: every batch has the labels as often as
    all papers have them."""
    if config.curriculum != "none":
        return "off"
    env_class = spec(config.env)
    if env_class.asks_for == "probabilities":
        return "proportional"
    return "equal" if env_class.asks_for == "label" and not env_class.drawn else "off"


@chz.chz
class CLIConfig(RecipeConfig):
    """Options of the recipe; every field is a ``name=value`` argument."""

    rows: int | None = chz.field(default=None, doc="Training examples to use; None for all.")
    groups_per_batch: int = suited(
        32,
        _groups,
        "Prompts of an update; default: 32, for a tiny model 16 unless probabilities of a rare label are asked for.",
    )
    group_size: int = chz.field(default=8, doc="Rollouts of each prompt.")
    max_steps: int = suited(100, _max_steps, "Updates; default: 100, for a tiny model 40 to 80 by environment.")
    temperature: float = chz.field(default=1.0, doc="Sampling temperature of the rollouts.")
    loss_fn: LossFnType = chz.field(default="importance_sampling", doc="Loss of the service.")
    loss_fn_config: dict[str, Any] | None = chz.field(
        default=None,
        doc='Settings of the loss as JSON, such as {"clip_low_threshold": 0.8}; default: those of the service.',
    )
    num_substeps: int = suited(
        1,
        _substeps,
        "Optimizer steps on each batch; default: 1, and one for eight prompts for a tiny model, whose sampling "
        "costs more than its training.",
    )
    kl_penalty_coef: float = suited(
        0.0,
        _kl_penalty,
        "Weight of a penalty on the KL divergence from a reference; default: 0, and 0.1 for a tiny model whose "
        "answer is more than one label.",
    )
    kl_reference_checkpoint: str | None = chz.field(
        default=None,
        munger=folder_or_name,
        doc="That reference, a checkpoint or a run; default: the start of training.",
    )
    remove_constant_reward_groups: bool = chz.field(
        default=False,
        doc="Leave groups with equal rewards out of the update. Metrics stay those of all groups; groups/removed "
        "counts them.",
    )
    balance_labels: Balance = suited(
        "off",
        _balance,
        "Order of papers by label: in every batch as often as among all papers (proportional), by turns (equal), "
        "or more often as the policy stops naming it (adaptive, at every validation); default: off; for a tiny model "
        "equal where it answers with labels and proportional where it answers with probabilities.",
    )
    curriculum: Curriculum = chz.field(
        default="none", doc="Easy papers first, by distance from the label boundary (margin) or by pass rate."
    )
    pass_rate_attempts: int = chz.field(default=8, doc="Attempts at each paper that curriculum=pass_rate counts.")
    max_steps_off_policy: int | None = chz.field(
        default=None, doc="Sampling runs ahead of training by at most so many updates; None: strictly on-policy."
    )
    num_minibatches: int | None = chz.field(
        default=None, doc="A batch is trained on in so many parts, the first while the last is sampled."
    )
    rollouts: Rollouts = chz.field(
        default="local", doc="Where episodes run: in this process, in worker processes, or on a Ray cluster."
    )
    rollout_workers: int = chz.field(default=4, doc="Worker processes of rollouts=processes.")
    held_out: int = chz.field(
        default=0,
        doc="Validation examples that are sampled like training ones (one rollout each) at every validation.",
    )
    held_out_nll: bool = chz.field(
        default=False, doc="Whether every validation logs the NLL of the gold answers, as held_out/nll."
    )
    num_groups_to_log: int = chz.field(default=1, doc="Groups of an update whose rollouts are printed.")


def build_config(cfg: CLIConfig) -> train.Config:
    """The cookbook's configuration of these options. It reads the dataset's card and starts nothing.

    Raises `ValueError` if options contradict each other or name something that does not exist.
    """
    shared = cfg.loop("rl")
    groups = cfg.groups_per_batch
    off_policy, minibatches = cfg.max_steps_off_policy, cfg.num_minibatches
    if off_policy is not None and minibatches is not None:
        raise ValueError("max_steps_off_policy and num_minibatches exclude each other: asynchronous or streaming")
    reference = None
    if cfg.kl_penalty_coef > 0:
        start = state_path(cfg.kl_reference_checkpoint or cfg.load_checkpoint_path)
        reference = train.KLReferenceConfig(base_model=cfg.model_name, load_checkpoint_path=start)
    return train.Config(
        **shared,
        dataset_builder=SciSciDatasetBuilder(
            **cfg.prompts(),
            groups_per_batch=groups,
            group_size=cfg.group_size,
            batches=cfg.max_steps,
            held_out=cfg.held_out,
            order=_order(cfg),
            rows=cfg.rows,
        ),
        max_tokens=cfg.max_tokens,
        temperature=cfg.temperature,
        loss_fn=cfg.loss_fn,
        loss_fn_config=cfg.loss_fn_config,
        num_substeps=cfg.num_substeps,
        kl_penalty_coef=cfg.kl_penalty_coef,
        kl_reference_config=reference,
        remove_constant_reward_groups=cfg.remove_constant_reward_groups,
        async_config=None
        if off_policy is None
        else train.AsyncConfig(max_steps_off_policy=off_policy, groups_per_batch=groups),
        stream_minibatch_config=None
        if minibatches is None
        else train.StreamMinibatchConfig(groups_per_batch=groups, num_minibatches=minibatches),
        evaluator_builders=[*validation_builders(cfg), *([held_out_nll(cfg)] if cfg.held_out_nll else [])],
        eval_every=cfg.eval_every,
        num_groups_to_log=cfg.num_groups_to_log,
    )


BY_LABEL = {"equal": Balanced, "proportional": Proportional}


def _order(cfg: CLIConfig) -> OrderMaker | None:
    """The maker of the order that the options ask for; None for papers in random order."""
    if cfg.curriculum != "none":
        if cfg.balance_labels != "off":
            raise ValueError("curriculum and balance_labels exclude each other: one thing decides the order of papers")
        return CurriculumOrder(cfg.curriculum, cfg.env, cfg.groups_per_batch, cfg.log_path)
    if cfg.balance_labels == "adaptive":
        if cfg.validation_examples == 0 or not cfg.eval_every:
            raise ValueError("balance_labels=adaptive goes by answers to validation papers; turn validation on")
        return AdaptiveOrder(cfg.env, cfg.groups_per_batch, cfg.log_path)
    kind = BY_LABEL.get(cfg.balance_labels)
    return kind and LabelOrder(cfg.env, kind)


async def _train(cfg: CLIConfig, config: train.Config) -> None:
    if cfg.curriculum == "pass_rate":
        await measure_pass_rates(cfg, config.load_checkpoint_path, cfg.pass_rate_attempts)
    prepare_rl_resume(cfg.log_path)
    every_group = metrics_of_all_groups() if cfg.remove_constant_reward_groups else nullcontext()
    with every_group, rollout_executor(cfg.rollouts, cfg.rollout_workers) as executor:
        await train.main(config, rollout_executor=executor)


RECIPE = Recipe("rl", CLIConfig, build_config, _train)

if __name__ == "__main__":
    RECIPE.main(chz.entrypoint(CLIConfig))
