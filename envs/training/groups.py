"""From papers to what the cookbook's RL loop takes: env groups, batches, datasets. Builders can be pickled."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, cast

import chz
from tinker_cookbook.renderers import Renderer
from tinker_cookbook.rl.message_env import MessageEnv
from tinker_cookbook.rl.types import (
    Action,
    ActionExtra,
    Env,
    EnvGroupBuilder,
    Metrics,
    RLDataset,
    RLDatasetBuilder,
    StepResult,
    Trajectory,
)
from tinker_cookbook.utils import logtree

from ...datasets.store import load_papers
from ...rewards.diagnostics import group_diagnostics
from ..compat import RenderedInPlace
from ..kit.base import Example, SciSciEnv
from ..kit.renderers import renderer_of
from ..registry import spec
from .order import Order, Shuffled, drawn_rows, epoch_order
from .outcomes import EpisodeLog, outcome_metrics


class SciSciTokenEnv(RenderedInPlace):
    """A message environment at token level, which is told when its episode ends without it.

    The cookbook's adapter returns early on a token limit and on a message that cannot be parsed. Here that costs the
    `floor`, and the environment's `abandon` is called, so that nobody waits for it.
    """

    def __init__(self, renderer: Renderer, env: MessageEnv, floor: float):
        # The cookbook's default for a cut-off answer is -0.1: better than being wrong. It would teach a policy to run
        # out of tokens whenever it is unsure.
        super().__init__(renderer, env, failed_parse_reward=floor, context_overflow_reward=floor)

    async def step(self, action: Action, *, extra: ActionExtra | None = None) -> StepResult:
        result = await super().step(action, extra=extra)
        if result.episode_done and isinstance(self.message_env, SciSciEnv):
            self.message_env.abandon()
        return result


def token_env(env: MessageEnv, renderer: Renderer, floor: float | None = None) -> SciSciTokenEnv:
    """`env` at token level. An episode that is cut off earns `floor`, by default that of the environment."""
    if floor is None:
        if not isinstance(env, SciSciEnv):
            raise ValueError(f"{type(env).__name__} has no reward_range; say which floor a cut-off answer earns")
        floor = env.reward_range[0]
    return SciSciTokenEnv(renderer, env, floor)


@dataclass(frozen=True)
class SciSciGroupBuilder(EnvGroupBuilder):
    """One group: `group_size` episodes about the same example.

    `options` are those of the environment. Renderer and tokenizer are names and not objects, so that a builder is small
    when it travels to a worker process.
    """

    env_id: str
    example: Example
    renderer_name: str
    tokenizer_name: str
    group_size: int
    options: dict[str, Any] = field(default_factory=dict)

    async def make_envs(self) -> Sequence[Env]:
        renderer = renderer_of(self.renderer_name, self.tokenizer_name)
        group = spec(self.env_id).make_group(self.example, self.group_size, self.options)
        return [token_env(env, renderer) for env in group]

    async def compute_group_rewards(
        self, trajectory_group: list[Trajectory], env_group: Sequence[Env]
    ) -> list[tuple[float, Metrics]]:
        """Rewards that depend on all episodes of the group, and metrics: ties, outcomes, and what cut-off ones lack."""
        inner = [cast(SciSciEnv, cast(SciSciTokenEnv, env).message_env) for env in env_group]
        added = [env.group_reward() for env in inner]
        rewards = [
            sum(step.reward for step in trajectory.transitions) + extra
            for trajectory, extra in zip(trajectory_group, added, strict=True)
        ]
        sides = [env.side for env in inner]
        shifts = side_shifts(rewards, sides)
        ties: dict[str, Metrics] = {}
        for side, env in dict(zip(sides, inner, strict=True)).items():
            of_side = [reward for reward, other in zip(rewards, sides, strict=True) if other == side]
            statistics = group_diagnostics(of_side, *env.reward_range)
            ties[side] = {_of_side(env, name): value for name, value in statistics.items()}
        renderer = renderer_of(self.renderer_name, self.tokenizer_name)
        results: list[tuple[float, Metrics]] = []
        for place, (trajectory, env, reward) in enumerate(zip(trajectory_group, inner, rewards, strict=True)):
            # Written if the cookbook logs this group (`num_groups_to_log`).
            logtree.log_formatter(EpisodeLog(renderer, trajectory, env, reward))
            own = {_of_side(env, "reward"): reward} if len(ties) > 1 else {}
            # What an episode lacks because it was cut off.
            have = {name for step in trajectory.transitions for name in step.metrics}
            ungraded = {name: value for name, value in env.ungraded.items() if name not in have}
            metrics = {**ties[env.side], **own, **outcome_metrics(trajectory, env, reward, renderer), **ungraded}
            results.append((added[place] + shifts[place], metrics))
        return results

    def logging_tags(self) -> list[str]:
        return [self.env_id]


def side_shifts(rewards: Sequence[float], sides: Sequence[str]) -> list[float]:
    """What to add to rewards so that subtracting the mean of the group centres each side of it by itself.

    The cookbook centres a group as a whole. If two sides share a mean, whoever lowers the other's rewards raises its
    own advantage, and learns to do so. The shifts give every side the mean of the group, which stays what it was.

    One for each of G >= 1 rewards: the mean of the group minus that of the rollout's side, 0 where there is one side.

    Examples
    --------
    >>> side_shifts([1.0, -1.0, 0.5, 0.5], ["", "", "objector", "objector"])
    [0.25, 0.25, -0.25, -0.25]
    """
    of_side = {side: [reward for reward, of in zip(rewards, sides, strict=True) if of == side] for side in set(sides)}
    means = {side: fmean(members) for side, members in of_side.items()}
    return [fmean(rewards) - means[side] for side in sides]


def _of_side(env: SciSciEnv, name: str) -> str:
    return f"{env.side}_{name}" if env.side else name


class SciSciDataset(RLDataset):
    """Batches of groups over a list of examples, shuffled anew every epoch.

    It has so many `batches`; None for one epoch. The `seed` is that of the shuffling; None keeps the order, for one
    epoch. `order` says which example comes when; None for `Shuffled`. Environments that draw their examples come with
    `redraw`, from the number of an epoch to its examples: `examples` are those of epoch 0, and an epoch is as long as
    this one.
    """

    def __init__(
        self,
        env_id: str,
        examples: Sequence[Example],
        *,
        groups_per_batch: int,
        group_size: int,
        renderer_name: str,
        tokenizer_name: str,
        options: dict[str, Any] | None = None,
        batches: int | None = None,
        seed: int | None = 0,
        order: Order | None = None,
        redraw: Callable[[int], Sequence[Example]] | None = None,
    ):
        if not examples:
            raise ValueError(f"no examples for {env_id}: none of the papers has the label it grades against")
        for name, value in (("groups_per_batch", groups_per_batch), ("group_size", group_size)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.env_id, self.examples, self.seed = env_id, examples, seed
        self.groups_per_batch, self.group_size = groups_per_batch, group_size
        self.renderer_name, self.tokenizer_name = renderer_name, tokenizer_name
        self.options = options or {}
        self.redraw = redraw and functools.lru_cache(maxsize=2)(redraw)
        self.order = order or Shuffled(len(examples), seed or 0)
        self.batches = batches if batches is not None else -(-len(examples) // groups_per_batch)

    def __len__(self) -> int:
        return self.batches

    def get_batch(self, index: int) -> Sequence[EnvGroupBuilder]:
        if not 0 <= index < self.batches:
            raise IndexError(f"batch {index} is outside 0..{self.batches - 1}")
        # One endless stream of shuffled epochs, so that a batch may straddle two of them and none is short.
        first = index * self.groups_per_batch
        last = first + self.groups_per_batch
        if self.seed is None:
            last = min(last, len(self.examples))
        return [self._builder(position) for position in range(first, last)]

    def _builder(self, position: int) -> SciSciGroupBuilder:
        options = self.options
        if self.seed is not None and "seed" in spec(self.env_id).option_names() and "seed" not in options:
            # The environment draws anew every time an example comes up again, and the same within a group.
            options = {**options, "seed": self.seed * 1_000_003 + position}
        place = position if self.seed is None else self.order(position)
        epoch = position // len(self.examples)
        # Another draw may be a little shorter, or empty where there are few papers.
        examples = (self.redraw(epoch) if self.redraw and epoch else None) or self.examples
        example = examples[place % len(examples)]
        return SciSciGroupBuilder(
            self.env_id, example, self.renderer_name, self.tokenizer_name, self.group_size, options
        )


OrderMaker = Callable[[Sequence[Example], int], Order]


@chz.chz
class SciSciDatasetBuilder(RLDatasetBuilder):
    """Training and held-out batches of one environment over a built dataset folder.

    `dataset` is a folder that `scisci-gym build` wrote, `options` are those of the environment, such as
    ``{"prompt": "short"}``. There are so many training `batches`; None for one epoch. The evaluation during training
    takes `held_out` examples of the validation split, one rollout each; 0 for none. `order` goes from examples and seed
    to the `Order` of the training examples; None for `Shuffled`. With `rows`, only so many training examples are used;
    see `drawn_rows`.
    """

    env_id: str
    dataset: str
    renderer_name: str
    tokenizer_name: str
    groups_per_batch: int = 32
    group_size: int = 8
    batches: int | None = None
    held_out: int = 128
    options: dict[str, Any] = chz.field(default_factory=dict)
    seed: int = 0
    order: OrderMaker | None = None
    rows: int | None = None

    async def __call__(self) -> tuple[SciSciDataset, SciSciDataset | None]:
        env_class = spec(self.env_id)
        papers = load_papers(self.dataset, "train")
        shared: dict[str, Any] = {
            "renderer_name": self.renderer_name,
            "tokenizer_name": self.tokenizer_name,
            "options": {**env_class.training_options(self.dataset), **self.options},
        }
        training = drawn_rows(env_class.examples(papers, self.seed), self.rows, self.seed)
        # An order goes by the labels of the examples, so it keeps them.
        drawn = env_class.drawn and self.order is None and self.rows is None
        train = SciSciDataset(
            self.env_id,
            training,
            groups_per_batch=self.groups_per_batch,
            group_size=self.group_size,
            batches=self.batches,
            seed=self.seed,
            order=self.order(training, self.seed) if self.order and training else None,
            redraw=(lambda epoch: env_class.examples(papers, self.seed + 1_000_003 * epoch)) if drawn else None,
            **shared,
        )
        if not self.held_out:
            return train, None
        examples = env_class.examples(load_papers(self.dataset, "validation"), self.seed)
        chosen = epoch_order(self.seed, 0, len(examples))[: self.held_out]
        held_out = SciSciDataset(
            self.env_id,
            [examples[index] for index in sorted(chosen)],
            groups_per_batch=max(1, len(chosen)),
            group_size=1,
            seed=None,
            **shared,
        )
        return train, held_out
