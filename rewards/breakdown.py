"""The parts a reward is made of, kept apart for metrics, for logs and for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RewardBreakdown:
    """R = correctness + reasoning + adaptation.

    Parameters
    ----------
    correctness : float in {-1, +1}
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
        if self.correctness not in (-1.0, 1.0):
            raise ValueError(f"correctness must be -1 or +1, got {self.correctness!r}")
        for name, best in (("reasoning", MAX_REASONING), ("adaptation", MAX_ADAPTATION)):
            if not 0.0 <= getattr(self, name) <= best:
                raise ValueError(f"{name} must be in [0, {best}], got {getattr(self, name)!r}")

    @property
    def total(self) -> float:
        """Sum of the parts, in [-1, 1.5]."""
        return self.correctness + self.reasoning + self.adaptation


MAX_REASONING, MAX_ADAPTATION = 0.3, 0.2
