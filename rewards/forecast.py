"""Bounded rewards for forecasts: the Brier score for probabilities, the absolute error for numbers."""

from __future__ import annotations

import math
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
        If they are not probabilities. Parsing has to see to that before.

    Examples
    --------
    >>> brier_reward([0.0, 1.0, 0.0], 1), brier_reward([0.0, 1.0, 0.0], 0), brier_reward([0.5, 0.5], 0)
    (1.0, -1.0, 0.5)
    """
    # `not (... <= ...)` and not `... > ...`: so that NaN is refused as well.
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
