"""Bounded rewards for forecasts: the Brier score for probabilities, the distance for numbers or for their ranks."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def brier_reward(probabilities: Sequence[float], truth: int) -> float:
    """1 - sum_k (p_k - y_k)^2, in [-1, 1]: the Brier score of Brier (1950), turned so that more is better.

    Strictly proper: whoever believes q earns most in expectation by stating q. 1 for certainty of the truth, -1 for
    certainty of something else, 1/3 for three equal probabilities and 1/2 for two.

    Parameters
    ----------
    probabilities : sequence of float in [0, 1] that sum to 1
    truth : int
        Index of what happened.

    Raises
    ------
    ValueError
        If they are not probabilities, which the parser of the answer has to check first.

    Examples
    --------
    >>> brier_reward([0.0, 1.0, 0.0], 1), brier_reward([0.0, 1.0, 0.0], 0), brier_reward([0.5, 0.5], 0)
    (1.0, -1.0, 0.5)
    """
    # Written as `not (... <= ...)` and not as `... > ...`, so that NaN is refused as well.
    if not (min(probabilities) >= 0.0 and abs(math.fsum(probabilities) - 1.0) <= 1e-9):
        raise ValueError(f"probabilities must be in [0, 1] and sum to 1, got {list(probabilities)!r}")
    losses = [p * p for p in probabilities]
    losses[truth] = (1.0 - probabilities[truth]) ** 2
    # Rounding may carry the sum of squares past its bound of 2 by one unit in the last place.
    return 1.0 - min(2.0, math.fsum(losses))


def distance_reward(forecast: float, truth: float) -> float:
    """1 - |forecast - truth| for two numbers in [-1, 1]; in [-1, 1], and largest in expectation at the median.

    The absolute and not the squared error: most CD indices lie near 0, where squares are all the same.

    Examples
    --------
    >>> distance_reward(0.25, 0.25), distance_reward(-1.0, 1.0)
    (1.0, -1.0)
    """
    return max(-1.0, 1.0 - abs(forecast - truth))


def brier_skill(probabilities: Sequence[float], truth: int, prior: Sequence[float]) -> float:
    """1 - BS / BS0: the Brier skill score against a prior, with BS0 = 1 - sum_k prior_k^2.

    BS = sum_k (p_k - y_k)^2 as in `brier_reward`, of which this is an increasing linear function: so it is strictly
    proper as well. BS0 is what the prior's Brier score is on average if the labels are as frequent as it says: stating
    the prior earns 0 on average, certainty of the truth 1, and certainty of something else `brier_skill_floor`.

    Raises
    ------
    ValueError
        If either argument does not hold probabilities, or the prior is certain.

    Examples
    --------
    >>> [brier_skill(p, 0, [0.5, 0.5]) for p in ([1.0, 0.0], [0.5, 0.5], [0.0, 1.0])]
    [1.0, 0.0, -3.0]

    References
    ----------
    Murphy (1973), "Hedging and skill scores for probability forecasts", Journal of Applied Meteorology 12.
    """
    # From `brier_reward`, which is 1 - BS, so that the ends of the range are met exactly.
    return 1.0 - (1.0 - brier_reward(probabilities, truth)) / _uncertainty(prior)


def brier_skill_floor(prior: Sequence[float]) -> float:
    """The least that `brier_skill` pays: 1 - 2 / (1 - sum_k prior_k^2).

    Examples
    --------
    >>> brier_skill_floor([0.5, 0.5])
    -3.0
    """
    return 1.0 - 2.0 / _uncertainty(prior)


def _uncertainty(prior: Sequence[float]) -> float:
    squares = math.fsum(p * p for p in prior)
    if not (min(prior) >= 0.0 and abs(math.fsum(prior) - 1.0) <= 1e-9 and squares < 1.0):
        raise ValueError(f"a prior must be probabilities that sum to 1, none of them 1, got {list(prior)!r}")
    return 1.0 - squares


def rank_distance_reward(forecast: float, truth: float, ranks: Sequence[float]) -> float:
    """1 - 2 |F(forecast) - F(truth)|, in [-1, 1], with F the `rank_share` of a number.

    Largest in expectation at the median of what is believed, as `distance_reward` is: F is monotone. Where most values
    lie close together, it tells them apart.

    `ranks` ascend and are not empty.

    Examples
    --------
    >>> rank_distance_reward(0.0, 0.01, [-0.5, 0.0, 0.01, 0.4])
    0.5
    """
    return 1.0 - 2.0 * abs(rank_share(forecast, ranks) - rank_share(truth, ranks))


def rank_share(value: float, ranks: Sequence[float]) -> float:
    """F(value), in [0, 1]: the share of `ranks` below a number, those equal to it counted by half.

    `ranks` ascend and are not empty.

    Examples
    --------
    >>> rank_share(0.0, [-0.5, 0.0, 0.01, 0.4])
    0.375
    """
    return (bisect_left(ranks, value) + bisect_right(ranks, value)) / (2 * len(ranks))
