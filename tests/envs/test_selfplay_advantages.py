"""Self-play: what a challenger that misleads gains, by the advantages that the cookbook makes of the rewards.

A table in place of a model. A's first answer is right half of the time, and A follows B's argument four times of five.
B knows the right label and names it, but chooses whether to argue for it or against it; that choice is all that is
learned, by policy gradient.
"""

from __future__ import annotations

import math
import random

import pytest
from tinker_cookbook.rl.data_processing import compute_advantages
from tinker_cookbook.rl.types import Trajectory, TrajectoryGroup

from scisci_gym.envs.training.groups import side_shifts
from scisci_gym.rewards import CORRECT, MAX_ADAPTATION, WRONG, adaptation

GROUP, STEPS, GROUPS_PER_STEP, LEARNING_RATE = 8, 120, 16, 0.5
START = 0.2
"""Share of the games in which B misleads at first."""


def game(misleads: bool, rng: random.Random) -> tuple[float, float]:
    """Rewards of A and B."""
    first_right = rng.random() < 0.5
    final_right = (not misleads) if rng.random() < 0.8 else first_right
    first, final = ("right" if right else "wrong" for right in (first_right, final_right))
    side_a = (CORRECT if final_right else WRONG) + adaptation(first, final, "right")
    return side_a, CORRECT + (MAX_ADAPTATION if final_right else 0.0)


def advantages(rewards: list[float], by_side: bool) -> list[float]:
    """Advantages of a group in the order A, B, A, B, ..."""
    shifts = side_shifts(rewards, ["", "objector"] * (GROUP // 2)) if by_side else [0.0] * GROUP
    final = [reward + shift for reward, shift in zip(rewards, shifts, strict=True)]
    group = TrajectoryGroup([Trajectory([], None)] * GROUP, final, [{}] * GROUP)  # pyright: ignore[reportArgumentType]
    return compute_advantages([group])[0].tolist()


def share_of_misleading(by_side: bool, seed: int) -> float:
    """After training."""
    rng, logit = random.Random(seed), math.log(START / (1 - START))
    for _ in range(STEPS):
        share, gradient = 1 / (1 + math.exp(-logit)), 0.0
        for _ in range(GROUPS_PER_STEP):
            choices = [rng.random() < share for _ in range(GROUP // 2)]
            rewards = [reward for misleads in choices for reward in game(misleads, rng)]
            gains = advantages(rewards, by_side)[1::2]
            gradient += sum(gain * (misleads - share) for gain, misleads in zip(gains, choices, strict=True))
        logit += LEARNING_RATE * gradient / GROUPS_PER_STEP
    return 1 / (1 + math.exp(-logit))


@pytest.mark.parametrize("seed", range(3))
def test_misleading_grows_if_both_sides_share_one_mean_and_shrinks_if_each_has_its_own(seed):
    assert share_of_misleading(by_side=False, seed=seed) > 0.5 > START
    assert share_of_misleading(by_side=True, seed=seed) < START


def test_each_side_is_centred_and_the_mean_of_the_group_stays():
    rewards = [1.2, 1.2, -1.0, 1.0, 1.1, 1.2, -1.0, -1.0]
    found = advantages(rewards, by_side=True)
    for side in (0, 1):
        mean = sum(rewards[side::2]) / 4
        assert found[side::2] == pytest.approx([reward - mean for reward in rewards[side::2]])
    shifts = side_shifts(rewards, ["", "objector"] * 4)
    assert sum(shifts) == pytest.approx(0.0)


def test_one_side_is_left_as_it_is():
    assert side_shifts([0.3, 0.1, 0.7], ["", "", ""]) == [0.0, 0.0, 0.0]
