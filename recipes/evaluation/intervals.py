"""A score with its bootstrap interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Score:
    """A value with the ends of its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # "z": minus nothing is nothing.
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"

    @property
    def brief(self) -> str:
        """Value and half the width of the interval, for tables that have to fit a terminal."""
        return f"{self.value:z.3f} ±{(self.high - self.low) / 2:.2f}"


def interval(values: np.ndarray) -> Score:
    """A score from its value on all examples (first) and on the resamples (the others), by the percentile method.

    Parameters
    ----------
    values : float array (1 + R,)
        Resamples on which the score is not defined are NaN and are left out.

    Examples
    --------
    >>> str(interval(np.array([0.5, 0.0, 0.5, 1.0])))
    '0.500 [0.025, 0.975]'
    """
    drawn = values[1:][np.isfinite(values[1:])]
    if not len(drawn):
        return Score(float(values[0]), float("nan"), float("nan"))
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(float(values[0]), float(low), float(high))
