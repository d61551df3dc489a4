"""Scores of stated probabilities: Brier score and skill, log score, calibration error, reliability bins."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import binomtest

from .bootstrap import Score, divide, interval, resample

CLIP = 1e-6
"""The log score takes smaller probabilities for this one, so that a certain and wrong forecast costs ln(1e6) = 13.8."""


@dataclass(frozen=True)
class ReliabilityBin:
    """`n` forecasts whose probability lies in (low, high]; the first bin also holds 0.

    `forecast` is the mean probability, NaN in an empty bin, and `observed` how often it came true, with the 95 % Wilson
    interval.
    """

    low: float
    high: float
    n: int
    forecast: float
    observed: float
    observed_low: float
    observed_high: float


@dataclass(frozen=True)
class Calibration:
    """Scores of `n` forecasts, with 95 % bootstrap intervals."""

    n: int
    answered: float
    """Share of rows that hold a forecast, in [0, 1]. Any other counts as certainty of a wrong label."""
    brier: Score
    """Mean of sum_k (p_k - y_k)^2, in [0, 2]; with two labels half of that, in [0, 1], as is customary. Less is
    better."""
    brier_skill: Score | None
    """1 - brier / brier of the reference: 0 for the class prior itself, 1 for certainty of the truth. None without a
    prior."""
    log_score: Score
    """Mean natural logarithm of the probability of the truth, at least `CLIP`; at most 0. Its negative is the log
    loss."""
    ece: Score
    """Expected calibration error: mean over forecasts of |observed - forecast| of their bin. Resampling adds noise to
    every bin and so raises it; the interval is shifted back by that bias."""
    bins: tuple[ReliabilityBin, ...]


def calibration(
    probabilities: np.ndarray,
    truth: np.ndarray,
    bins: int = 10,
    *,
    prior: np.ndarray | None = None,
    positive: int | None = None,
    seed: int = 0,
    block: int = 1,
) -> Calibration:
    """Calibration of forecasts over K labels.

    Parameters
    ----------
    probabilities : float array (N, K), N >= 1, K >= 2
        Rows sum to 1; a row of NaN is no answer.
    truth : int array (N,) in [0, K)
    bins : int
        Bins of equal width in [0, 1].
    prior : float array (K,), optional
        Shares of the labels in *training*: the reference of the skill.
    positive : int, optional
        Bins and calibration error are those of the probability of this label, such as a rare event. None: of the
        largest probability (ties: the first label).
    seed, block
        Of the bootstrap; see `bootstrap_weights`.

    Raises `ValueError` if shapes do not fit, rows are no probabilities, or a truth is outside [0, K).

    References
    ----------
    Brier (1950), Monthly Weather Review 78; Guo et al. (2017), "On calibration of modern neural networks", eq. 3-5;
    Wilson (1927), JASA 22.

    Examples
    --------
    >>> result = calibration(np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([0, 0]), prior=np.array([0.5, 0.5]))
    >>> round(result.brier.value, 3), round(result.brier_skill.value, 3)
    (0.2, 0.2)
    """
    truth = np.asarray(truth)
    stated, answered = checked_probabilities(probabilities, truth)
    n, kinds = stated.shape
    scale, right = (0.5 if kinds == 2 else 1.0), np.eye(kinds)[truth]
    columns = [scale * ((stated - right) ** 2).sum(axis=1), np.log(np.maximum(stated[np.arange(n), truth], CLIP))]
    if prior is not None:
        reference, _ = checked_probabilities(np.asarray(prior, dtype=float)[None], np.array([0]))
        if reference.shape[1] != kinds:
            raise ValueError(f"prior has {reference.shape[1]} labels, probabilities have {kinds}")
        columns.append(scale * ((reference - right) ** 2).sum(axis=1))
    values = np.stack(columns, axis=1)
    forecast = stated.max(axis=1) if positive is None else stated[:, positive]
    came_true = (stated.argmax(axis=1) == truth) if positive is None else (truth == positive)
    gaps, bin_of = confidence_gaps(forecast, came_true, bins)

    def statistic(weights: np.ndarray) -> np.ndarray:
        errors = np.abs(weights @ gaps).sum(axis=1, keepdims=True)
        return np.concatenate([weights @ values, errors], axis=1) / weights.sum(axis=1, keepdims=True)

    drawn = resample(statistic, n, seed, block)
    ece, bias = interval(drawn[:, -1]), float(drawn[1:, -1].mean() - drawn[0, -1])
    ranges = enumerate(pairwise(np.linspace(0, 1, bins + 1).tolist()))
    return Calibration(
        n=n,
        answered=answered,
        brier=interval(drawn[:, 0]),
        brier_skill=None if prior is None else interval(1 - divide(drawn[:, 0], drawn[:, 2])),
        log_score=interval(drawn[:, 1]),
        ece=Score(ece.value, max(0.0, ece.low - bias), ece.high - bias),
        bins=tuple(_bin(*ends, forecast[bin_of == index], came_true[bin_of == index]) for index, ends in ranges),
    )


def confidence_gaps(forecast: np.ndarray, came_true: np.ndarray, bins: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """What the calibration error sums: came true (bool (N,)) minus forecast (N,), in the column of the forecast's bin.

    Returns a float array (N, bins) that is 0 outside of these columns, and the bins, int (N,).
    """
    bin_of = np.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], forecast)
    gaps = np.zeros((len(forecast), bins))
    gaps[np.arange(len(forecast)), bin_of] = came_true - forecast
    return gaps, bin_of


def checked_probabilities(probabilities: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, float]:
    """Probabilities in which a row of NaN has become certainty of a wrong label, and the share of the other rows.

    The wrong label is the next one in order. Environments treat no answer in the same way: it earns their floor.

    Raises what `calibration` raises.
    """
    stated = np.array(probabilities, dtype=float)
    if stated.ndim != 2 or stated.shape[1] < 2 or truth.shape != (len(stated),) or not len(stated):
        raise ValueError(f"need probabilities (N, K) and truth (N,), K >= 2, got {stated.shape} and {truth.shape}")
    kinds = stated.shape[1]
    if truth.min() < 0 or truth.max() >= kinds:
        raise ValueError(f"truth must be in [0, {kinds}), got {truth.min()}..{truth.max()}")
    missing = np.isnan(stated).all(axis=1)
    stated[missing] = np.eye(kinds)[(truth[missing] + 1) % kinds]
    bad = ~((stated >= 0).all(axis=1) & (np.abs(stated.sum(axis=1) - 1) <= 1e-6))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"probabilities must be in [0, 1] and sum to 1, row {row} is {stated[row].tolist()}")
    return stated, float(1 - missing.mean())


def _bin(low: float, high: float, forecast: np.ndarray, came_true: np.ndarray) -> ReliabilityBin:
    n, hits = len(forecast), int(came_true.sum())
    if not n:
        return ReliabilityBin(low, high, 0, *[float("nan")] * 4)
    spread = binomtest(hits, n).proportion_ci(method="wilson")
    return ReliabilityBin(low, high, n, float(forecast.mean()), hits / n, float(spread.low), float(spread.high))
