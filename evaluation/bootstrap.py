"""Scores with 95 % intervals: over examples by the bootstrap, and over training seeds and examples together.

This is the only module that resamples or makes an interval.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

RESAMPLES = 2000
LEVEL = 0.95
CHUNK_CELLS = 2_000_000


@dataclass(frozen=True)
class Score:
    """A value with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        # "z" writes a rounded negative zero without its sign.
        return f"{self.value:z.3f} [{self.low:z.3f}, {self.high:z.3f}]"

    @property
    def brief(self) -> str:
        """Value and half the width of the interval, for tables that have to fit a terminal."""
        return f"{self.value:z.3f} ±{(self.high - self.low) / 2:.2f}"

    @property
    def signed(self) -> str:
        """Value and interval of a difference, each with its sign."""
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    @property
    def sign(self) -> int:
        """1 or -1 for an interval that lies above or below 0, and 0 for one that holds 0 or is not defined."""
        return int(self.low > 0) - int(self.high < 0)


def interval(values: np.ndarray) -> Score:
    """A score from its value on all examples (first) and on the resamples (the others), by the percentile method.

    `values` is a float array (1 + R,). Resamples on which the score is not defined are NaN and are left out.

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


def seed_half_width(by_seed: np.ndarray, paper_variance: np.ndarray | float = 0.0, papers: int | None = None):
    """Half the width of the 95 % interval of a mean over training seeds, all evaluated on the same papers.

    The mean of S seeds has two sources of error: which seeds were drawn, with the variance s^2 / S estimated on S - 1
    degrees of freedom, and which papers, with the bootstrap variance v of the mean on N - 1. With t_k the 0.975
    quantile of Student's t with k degrees of freedom, the half width is

        sqrt(t_{S-1}^2 s^2 / S  +  t_{N-1}^2 v).

    By Banerjee's theorem such an interval covers at least at the stated rate for every ratio of the two variances; a t
    interval with Satterthwaite's degrees of freedom does not (with three seeds it missed 7.8 % instead of 5 %). The
    variation of a seed's score with the papers is part of both terms, which errs on the safe side.

    Parameters
    ----------
    by_seed : float array (..., S)
        Scores, or paired differences of scores, one for each seed. With S = 1 nothing is known about seeds: the
        interval is over papers alone and says nothing about another seed.
    paper_variance : float array (...) or float >= 0
        Variance of the mean over seeds under a bootstrap of the papers, the seeds held fixed. 0 leaves papers out.
    papers : int or None
        Number N of papers; None for infinitely many.

    Returns
    -------
    float array (...)

    References
    ----------
    Banerjee (1960), Approximate confidence interval for linear functions of means of k populations when the population
    variances are not equal, Sankhya 22, 357-358.

    Examples
    --------
    t_2 = 4.303 and s^2 / S = 0.01 / 3 for three seeds:

    >>> round(float(seed_half_width(np.array([0.1, 0.2, 0.3]))), 4)
    0.2484
    """
    seeds = by_seed.shape[-1]
    tail = (1 + LEVEL) / 2
    over_papers = student_t.ppf(tail, papers - 1 if papers and papers > 1 else np.inf) ** 2 * paper_variance
    if seeds == 1:
        return np.sqrt(over_papers)
    return np.sqrt(student_t.ppf(tail, seeds - 1) ** 2 * by_seed.var(axis=-1, ddof=1) / seeds + over_papers)


def seed_interval(
    by_seed: np.ndarray, drawn: np.ndarray, papers: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Score:
    """The mean over seeds with its interval over seeds and papers; see `seed_half_width`.

    `by_seed` has the score of every seed on all papers, and `drawn` the mean over seeds on R resamples of the papers.
    The interval is cut at the lowest and highest possible score, `bounds`.
    """
    value = float(by_seed.mean())
    half = float(seed_half_width(by_seed, drawn.var(ddof=1), papers))
    return Score(value, max(bounds[0], value - half), min(bounds[1], value + half))


def bootstrap_weights(n: int, seed: int = 0, block: int = 1, resamples: int | None = None) -> Iterator[np.ndarray]:
    """How often each of `n` examples is drawn: first all of them once, then the resamples, some at a time.

    Yields float arrays (R, n). `block` neighbours are drawn together, such as both orders of a pair; there are
    `RESAMPLES` resamples by default. Raises `ValueError` if `n` is 0 or not a multiple of `block`.
    """
    if n < 1 or n % block:
        raise ValueError(f"cannot resample {n} examples in blocks of {block}")
    yield np.ones((1, n))
    rng, units, resamples = np.random.default_rng(seed), n // block, resamples or RESAMPLES
    at_once = max(1, CHUNK_CELLS // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = rng.integers(units, size=(rows, units)) + units * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * units).reshape(rows, units)
        yield np.repeat(counts, block, axis=1).astype(float)


def resample(
    statistic: Callable[[np.ndarray], np.ndarray], n: int, seed: int = 0, block: int = 1, resamples: int | None = None
) -> np.ndarray:
    """A statistic, weights (R, n) -> values (R, ...), on all examples (first row) and on the resamples."""
    return np.concatenate([statistic(weights) for weights in bootstrap_weights(n, seed, block, resamples)])


def resampled_counts(cells: np.ndarray, shape: tuple[int, ...], seed: int = 0, block: int = 1) -> np.ndarray:
    """Counts of all examples (first) and of 2,000 resamples of them, (1 + 2000, *shape): `resample` of a histogram.

    `cells`, int (N,), says where each example falls in the flattened `shape`; `block` is as in `bootstrap_weights`.
    """
    size, n = int(np.prod(shape)), len(cells)
    rng, counts = np.random.default_rng(seed), np.bincount(cells, minlength=size)
    if block == 1:
        # Scores depend on the examples through these counts alone, so resampling examples is the same as drawing counts
        # from a multinomial over the cells.
        draws = rng.multinomial(n, counts / n, size=RESAMPLES)
    else:
        if n % block:
            raise ValueError(f"{n} examples are not blocks of {block}")
        blocks = np.zeros((n // block, size))
        np.add.at(blocks, (np.arange(n) // block, cells), 1)
        kinds, frequency = np.unique(blocks, axis=0, return_counts=True)
        draws = rng.multinomial(len(blocks), frequency / len(blocks), size=RESAMPLES) @ kinds
    return np.concatenate([counts[None], draws]).reshape(-1, *shape)


def divide(over: np.ndarray, under: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
    """`over / under`, and `otherwise` where `under` is not above 0."""
    shape = np.broadcast_shapes(np.shape(over), np.shape(under))
    return np.divide(over, under, out=np.full(shape, otherwise), where=under > 0)


def _weighted_means(values: np.ndarray, weights: np.ndarray, seed: int, block: int) -> np.ndarray:
    """Means of the columns of `values` (N, C) under weights (N, C); float (1 + R, C), NaN where all weights are 0."""
    weights = weights.astype(float)
    return resample(lambda drawn: divide(drawn @ (weights * values), drawn @ weights), len(values), seed, block)


def mean_scores(
    columns: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    seed: int = 0,
    block: int = 1,
) -> dict[str, Score]:
    """Means of named values with their bootstrap intervals, all on the same resamples.

    `columns` are float or bool arrays (N,). `weights`, the same, say how much each example weighs in the mean of that
    name, such as 1 for those that the mean is about and else 0; where there are none, all weigh the same, and where all
    are 0, the mean is NaN.

    Examples
    --------
    >>> right, asked = np.array([1, 0, 1, 1]), np.array([True, True, False, False])
    >>> mean_scores({"right": right, "right if asked": right}, {"right if asked": asked})["right if asked"].value
    0.5
    """
    values = np.stack(list(columns.values()), axis=1).astype(float)
    shares = np.stack([(weights or {}).get(name, np.ones(len(values))) for name in columns], axis=1)
    means = _weighted_means(values, shares, seed, block)
    return {name: interval(column) for name, column in zip(columns, means.T, strict=True)}


def mean_score(values: np.ndarray, seed: int = 0, block: int = 1) -> Score:
    """Mean of `values` (N,) with its bootstrap interval."""
    return mean_scores({"": values}, seed=seed, block=block)[""]


def mean_difference(values: np.ndarray, group: np.ndarray, seed: int = 0, block: int = 1) -> Score:
    """Mean of `values` (N,) inside a group minus the mean outside, with a bootstrap interval over all examples.

    `group` is a bool array (N,).

    Examples
    --------
    >>> mean_difference(np.array([1, 1, 0, 1]), np.array([True, True, False, False])).value
    0.5
    """
    means = _weighted_means(np.stack([values, values], axis=1), np.stack([group, ~group], axis=1), seed, block)
    return interval(means[:, 0] - means[:, 1])
