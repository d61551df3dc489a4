"""A curve in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...evaluation.render.figures import as_float, mean_of

BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 32) -> str:
    """Values in order as blocks of eight heights, from the lowest to the highest of them.

    Parameters
    ----------
    values : sequence of float
        Where there are more than `width`, each block is the mean of its share of them. Values that are not finite are
        left out of means; a block without any other is "!".
    width : int >= 1

    Examples
    --------
    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    >>> sparkline([1.0, 1.0]), sparkline([0.0, float("nan"), 1.0])
    ('▁▁', '▁!█')
    """
    # In units of the largest value: sums and differences of values near the largest float would overflow.
    values = [as_float(value) for value in values]
    unit = max((abs(value) for value in values if math.isfinite(value)), default=0.0) or 1.0
    values = [value / unit for value in values]
    count = min(width, len(values))
    bins = [values[at * len(values) // count : (at + 1) * len(values) // count] for at in range(count)]
    means = [mean_of([value for value in part if math.isfinite(value)]) for part in bins]
    known = [mean for mean in means if math.isfinite(mean)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)

    def block(mean: float) -> str:
        if not math.isfinite(mean):
            return "!"
        height = (mean - low) / (high - low) if high > low else 0.0
        return BLOCKS[round(height * (len(BLOCKS) - 1))]

    return "".join(map(block, means))
