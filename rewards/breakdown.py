"""The parts a reward is made of, kept apart for metrics, for logs and for people."""

from __future__ import annotations

from dataclasses import dataclass

MAX_REASONING, MAX_ADAPTATION = 0.3, 0.2


@dataclass(frozen=True)
class RewardBreakdown:
    """R = correctness + reasoning + adaptation.

    Parameters
    ----------
    correctness : float in [-1, 1]
        -1 or +1 for a label; a score in between for a forecast.
    reasoning : float in [0, 0.3]
    adaptation : float in [0, 0.2]

    Raises
    ------
    ValueError
        If a part is outside its range: a bug in a reward, never a matter of a model's text.

    Examples
    --------
    >>> RewardBreakdown(1.0, reasoning=0.2).total
    1.2
    """

    correctness: float
    reasoning: float = 0.0
    adaptation: float = 0.0

    def __post_init__(self) -> None:
        if not -1.0 <= self.correctness <= 1.0:
            raise ValueError(f"correctness must be in [-1, 1], got {self.correctness!r}")
        if not 0.0 <= self.reasoning <= MAX_REASONING:
            raise ValueError(f"reasoning must be in [0, {MAX_REASONING:g}], got {self.reasoning!r}")
        if not 0.0 <= self.adaptation <= MAX_ADAPTATION:
            raise ValueError(f"adaptation must be in [0, {MAX_ADAPTATION:g}], got {self.adaptation!r}")

    @property
    def total(self) -> float:
        """Sum of the parts, in [-1, 1.5]."""
        return self.correctness + self.reasoning + self.adaptation

    def metrics(self) -> dict[str, float]:
        """The parts by the names they have in training metrics."""
        return {
            "reward_correctness": self.correctness,
            "reward_reasoning": self.reasoning,
            "reward_adaptation": self.adaptation,
        }
