"""Metrics of all groups of a step, also where groups with constant rewards are left out of training.

With `remove_constant_reward_groups` the cookbook computes its metrics from the groups that are left, so the share of
groups with equal rewards is 0 by construction, accuracy is that of the papers of middling difficulty, and nothing says
how many groups are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tinker_cookbook.rl import train
from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
from tinker_cookbook.rl.types import EnvGroupBuilder, TrajectoryGroup
from tinker_cookbook.utils.misc_utils import all_same

SAMPLED, REMOVED = "groups/sampled", "groups/removed"
ROLLOUT = "do_group_rollout_and_filter_constant_reward"
"""Of `train`, which imports it from another module."""


@contextmanager
def metrics_of_all_groups() -> Iterator[None]:
    """Inside the block, `train.main` logs ``env/...`` over all groups, ``groups/sampled``: how many there were, and
    ``groups/removed``: how many of them were left out of the update.

    The functions of `tinker_cookbook.rl.train` that sample a group and make an update are wrapped; what is trained on
    stays the same. In asynchronous training a removed group counts for the first update after it came in. All group
    builders of a run have the same logging tags.
    """
    constant: list[TrajectoryGroup] = []
    rollout = getattr(train, ROLLOUT)
    whole, streaming = (
        train.do_train_step_and_get_sampling_client,
        train.do_train_step_streaming_and_get_sampling_client,
    )

    async def sample(*args: Any, do_remove_constant_reward_groups: bool, **options: Any) -> TrajectoryGroup | None:
        group = await rollout(*args, do_remove_constant_reward_groups=False, **options)
        if group is None or not all_same(group.get_total_rewards()):
            return group
        constant.append(group)
        return None if do_remove_constant_reward_groups else group

    def add_metrics(metrics: dict[str, Any], kept: Sequence[TrajectoryGroup], builder: EnvGroupBuilder) -> None:
        removed = [group for group in constant if not any(group is other for other in kept)]
        constant.clear()
        groups = [*kept, *removed]
        metrics |= compute_trajectory_metrics(groups, [builder.logging_tags()] * len(groups))
        metrics |= {SAMPLED: float(len(groups)), REMOVED: float(len(removed))}

    async def whole_update(*args: Any) -> Any:
        result = await whole(*args)
        builders, kept = args[-2:]
        add_metrics(result[1], kept, builders[0])
        return result

    async def streaming_update(*args: Any) -> Any:
        result = await streaming(*args)
        if result is not None:
            add_metrics(result[1], [part.trajectory_group for part in result[2]], result[2][0].env_group_builder)
        return result

    setattr(train, ROLLOUT, sample)
    train.do_train_step_and_get_sampling_client = whole_update
    train.do_train_step_streaming_and_get_sampling_client = streaming_update
    try:
        yield
    finally:
        setattr(train, ROLLOUT, rollout)
        train.do_train_step_and_get_sampling_client = whole
        train.do_train_step_streaming_and_get_sampling_client = streaming
