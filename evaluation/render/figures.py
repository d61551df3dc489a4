"""Any number that a run can log, as text and in means: infinities, NaN, -0.0, and integers beyond all floats."""

from __future__ import annotations

import math
from collections.abc import Sequence


def as_float(value: float) -> float:
    """A number as a float; an integer beyond the range of floats becomes infinite.

    Examples
    --------
    >>> as_float(-10**400)
    -inf
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def mean_of(numbers: Sequence[float]) -> float:
    """Mean of finite floats, also where their sum is larger than the largest float; NaN of none.

    Examples
    --------
    >>> mean_of([1e308, 1e308])
    1e+308
    """
    return math.fsum(number / len(numbers) for number in numbers) if numbers else math.nan


def shown(value: float) -> str:
    """A value as tables have it: four digits, without an exponent where that is readable.

    Examples
    --------
    >>> shown(0.123456), shown(10412.3), shown(1.1e-12)
    ('0.1235', '10,412', '1.1e-12')
    """
    value = as_float(value)
    return f"{value:z,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:z.4g}"
