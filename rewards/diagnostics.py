"""How much a group of rollouts can teach: with group-centred advantages, equal rewards carry no signal."""

from __future__ import annotations

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
        every advantage is 0. ``reward_tie_pair_rate``: share of the G (G - 1) / 2 pairs that are equal (0 for G = 1).
        ``reward_unique_fraction_mean``: distinct rewards / G. ``reward_uniform_floor_rate`` and
        ``reward_uniform_best_rate``: 1 if all rewards are the worst, or the best, there is.

    Examples
    --------
    >>> group_diagnostics([1.0, 1.0, -1.0, -1.0], -1.0, 1.0)["reward_tie_pair_rate"]
    0.3333333333333333
    """
    size = len(rewards)
    counts = Counter(rewards)
    pairs = size * (size - 1) // 2
    tied = sum(count * (count - 1) // 2 for count in counts.values())
    uniform = len(counts) == 1
    return {
        "reward_tie_group_rate": float(tied > 0),
        "reward_uniform_group_rate": float(uniform),
        "reward_tie_pair_rate": tied / pairs if pairs else 0.0,
        "reward_unique_fraction_mean": len(counts) / size,
        "reward_uniform_floor_rate": float(uniform and rewards[0] == floor),
        "reward_uniform_best_rate": float(uniform and rewards[0] == best),
    }
