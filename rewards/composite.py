"""The composite reward, R = R_correctness + R_reasoning + R_adaptation, and two of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass

CORRECT, WRONG = 1.0, -1.0
MAX_REASONING, MAX_ADAPTATION = 0.3, 0.2
HELD, REVISED = MAX_ADAPTATION, MAX_ADAPTATION / 2


def correctness(predicted: str | None, truth: str) -> float:
    """Reward of a predicted label, in {-1, +1}.

    None, where no answer could be parsed, counts as wrong: no answer never pays more than a wrong one.

    Examples
    --------
    >>> correctness("neutral", "neutral"), correctness("disruptive", "neutral"), correctness(None, "neutral")
    (1.0, -1.0, -1.0)
    """
    return CORRECT if predicted == truth else WRONG


def ordered_correctness(predicted: str, truth: str, order: Sequence[str]) -> float:
    """Reward of a predicted label that is one of an order: 1 - 2 d / (K - 1) for d steps from the truth; in [-1, 1].

    `order` has the K >= 2 labels from lowest to highest.

    Examples
    --------
    >>> order = ("consolidating", "neutral", "disruptive")
    >>> [ordered_correctness(label, "consolidating", order) for label in order]
    [1.0, 0.0, -1.0]
    """
    steps = abs(order.index(predicted) - order.index(truth))
    return CORRECT - (CORRECT - WRONG) * steps / (len(order) - 1)


def adaptation(first: str | None, final: str | None, truth: str) -> float:
    """Bonus for how an answer came through a challenge, in {0, 0.1, 0.2}.

    0 for a wrong final label, whatever came before. A right one earns 0.2 if it stood from the start, and 0.1 if the
    challenge led to it. Why this order:

    - Equal amounts would make the first answer worthless. With more for a revision, the best policy would be to answer
      wrongly first and correct itself (sandbagging). Less for a revision makes the honest first answer the best one.
    - The difference is small on purpose. A revision from a label held with probability p to one with probability q pays
      if 2.1 q > 2.2 p, so what tips the decision is the evidence and not the bonus.

    Neither "always flip" nor "never flip" earns it as such: it is paid only on top of being right.

    Labels before and after the challenge are None where nothing could be parsed.

    Examples
    --------
    >>> adaptation("neutral", "neutral", "neutral"), adaptation("disruptive", "neutral", "neutral")
    (0.2, 0.1)
    >>> adaptation("neutral", "disruptive", "neutral")
    0.0
    """
    if final != truth:
        return 0.0
    return HELD if first == truth else REVISED


@dataclass(frozen=True)
class RewardBreakdown:
    """R = correctness + reasoning + adaptation.

    Parameters
    ----------
    correctness : float in [-1, 1]
        -1 or +1 for a label; a score in between for a forecast.
    floor : float
        The least that `correctness` may be, where it is not -1.
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
    floor: float = WRONG

    def __post_init__(self) -> None:
        if not self.floor <= self.correctness <= 1.0:
            raise ValueError(f"correctness must be in [{self.floor:g}, 1], got {self.correctness!r}")
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
