"""How much a group of rollouts can teach: with group-centred advantages, equal rewards carry no signal."""

import math
from collections import Counter
from collections.abc import Sequence


def group_diagnostics(rewards: Sequence[float], floor: float, best: float) -> dict[str, float]:
    """Tie statistics of one group. Averaged over groups of a step they are rates.

    Parameters
    ----------
    rewards : sequence of float, length G >= 1
        Total rewards of the rollouts of one prompt.
    floor, best : float
        Ends of the environment's reward range.

    Returns
    -------
    dict
        ``reward_tie_group_rate``: 1 if any two rewards are equal. ``reward_uniform_group_rate``: 1 if all are, so that
        every advantage is 0. ``reward_tie_pair_rate``: share of the G (G - 1) / 2 pairs that are equal.
        ``reward_unique_fraction_mean``: distinct rewards / G. ``reward_uniform_floor_rate`` and
        ``reward_uniform_best_rate``: 1 if all rewards are the worst, or the best, there is. ``reward_group_std``: their
        standard deviation, sqrt(mean((r - mean(r))^2)). Rewards of forecasts hardly ever tie, so that their groups look
        as if they had a signal; a standard deviation near 0 shows that they have none. A group of one has no pairs and
        is not uniform: all of these are 0 for it, but the distinct fraction, which is 1.

    Examples
    --------
    >>> group_diagnostics([1.0, 1.0, -1.0, -1.0], -1.0, 1.0)["reward_tie_pair_rate"]
    0.3333333333333333
    >>> group_diagnostics([0.5, -0.5], -1.0, 1.0)["reward_group_std"]
    0.5
    """
    size = len(rewards)
    counts = Counter(rewards)
    pairs = size * (size - 1) // 2
    tied = sum(count * (count - 1) // 2 for count in counts.values())
    uniform = size > 1 and len(counts) == 1
    mean = math.fsum(rewards) / size
    # Exactly 0 for equal rewards, whose mean may be off by a rounding.
    spread = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / size) if len(counts) > 1 else 0.0
    return {
        "reward_tie_group_rate": float(tied > 0),
        "reward_uniform_group_rate": float(uniform),
        "reward_tie_pair_rate": tied / pairs if pairs else 0.0,
        "reward_unique_fraction_mean": len(counts) / size,
        "reward_uniform_floor_rate": float(uniform and rewards[0] == floor),
        "reward_uniform_best_rate": float(uniform and rewards[0] == best),
        "reward_group_std": spread,
    }
