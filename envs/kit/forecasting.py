"""The base of the environments that ask for a probability for every label, paid by a proper scoring rule."""

from __future__ import annotations

from typing import ClassVar

from ...rewards import RewardBreakdown, brier_reward
from .answers import format_probabilities, parse_probabilities
from .single_turn import NO_ANSWER, Grade, LabelEnv


class ForecastEnv(LabelEnv):
    """A question about one paper that is answered by a probability for every label. A subclass is a `LabelEnv`.

    Rewards
    -------
    1 minus the Brier score over the labels, in [-1, 1]: 1 for certainty of the truth, -1 for certainty of another
    label, 1/3 for equal probabilities of three labels, 1/2 of two. The rule is proper: a policy does best by stating
    what it believes. Anything that is not an answer, and a cut-off answer, earns -1. The metric ``correct`` asks
    whether the truth got the largest probability, alone.
    """

    asks_for = "probabilities"
    detail_names: ClassVar[tuple[str, ...]]
    """What the single probabilities are called in the logs."""

    def __init_subclass__(cls) -> None:
        cls.detail_names = tuple(f"p_{label}" for label in cls.labels)
        shown = ", ".join(f"{label}: P" for label in cls.labels)
        cls.ending = (
            "the probability of every label, as decimals that sum to 1, between answer tags and nothing after them:\n"
            f"<answer>{shown}</answer>"
        )

    @classmethod
    def answer_for(cls, label: str) -> str:
        return format_probabilities([float(label == other) for other in cls.labels], cls.labels)

    @classmethod
    def honest_guess(cls) -> str | None:
        return format_probabilities([1 / len(cls.labels)] * len(cls.labels), cls.labels)

    def grade(self, text: str) -> Grade:
        probabilities = parse_probabilities(text, self.labels)
        if probabilities is None:
            return NO_ANSWER
        best = max(probabilities)
        # A tie names no label: counting its first one would reward an order of words.
        predicted = self.labels[probabilities.index(best)] if probabilities.count(best) == 1 else ""
        return Grade(
            RewardBreakdown(brier_reward(probabilities, self.labels.index(self._label))),
            predicted,
            predicted == self._label,
            valid=True,
            details=dict(zip(self.detail_names, probabilities, strict=True)),
        )
