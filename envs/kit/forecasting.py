"""The base of the environments that ask for a probability for every label, paid by a proper scoring rule."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...datasets.paper import Paper
from ...datasets.store import load_papers
from ...rewards import RewardBreakdown, brier_reward, brier_skill, brier_skill_floor
from .answers import format_probabilities, parse_probabilities
from .base import is_numbers
from .single_turn import Grade, LabelEnv


class ForecastEnv(LabelEnv):
    """A question about one paper that is answered by a probability for every label. A subclass is a `LabelEnv`.

    Action
    ------
    A text that ends with one answer: every label once, with a decimal from 0 to 1, summing to 1 (within 0.02), such as
    ``<answer>LABEL: 0.07, LABEL: 0.93</answer>`` for two labels. Anything before the tags is free.

    Rewards
    -------
    1 minus the Brier score over the labels, in [-1, 1]: 1 for certainty of the truth, -1 for certainty of another
    label, 1/3 for equal probabilities of three labels, 1/2 of two. The rule is proper: a policy does best by stating
    what it believes. Anything that is not an answer, and a cut-off answer, earns -1. The metric ``correct`` asks
    whether the truth got the largest probability, alone.
    """

    asks_for = "probabilities"

    def __init_subclass__(cls) -> None:
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

    def __init__(self, paper: Paper, *, prompt: str = "full", references: bool = False, facts: bool | None = None):
        super().__init__(paper, prompt=prompt, references=references, facts=facts)

    def pay(self, probabilities: Sequence[float], truth: int) -> RewardBreakdown:
        """What probabilities earn where the label number `truth` is right."""
        return RewardBreakdown(brier_reward(probabilities, truth))

    def grade(self, text: str) -> Grade:
        probabilities = parse_probabilities(text, self.labels)
        if probabilities is None:
            return self.no_answer()
        best = max(probabilities)
        # A tie names no label: counting its first one would reward an order of words.
        predicted = self.labels[probabilities.index(best)] if probabilities.count(best) == 1 else ""
        return Grade(
            self.pay(probabilities, self.labels.index(self._label)),
            predicted,
            predicted == self._label,
            valid=True,
            details={f"p_{label}": share for label, share in zip(self.labels, probabilities, strict=True)},
        )


class SkillForecastEnv(ForecastEnv):
    """A `ForecastEnv` that is paid by how much better than the prior a forecast is. Subclasses are v1 of a forecast.

    Rewards
    -------
    The Brier skill against the prior: 1 for certainty of the truth, 0 on average for stating the prior, and the floor,
    1 - 2 / (1 - sum of the squares of the prior), for certainty of another label: -2 for three equally frequent labels,
    -3 for two. The rule is proper: a policy does best by stating what it believes. Anything that is not an answer, and
    a cut-off answer, earns the floor. The metric ``correct`` asks whether the truth got the largest probability, alone.

    Arguments
    ---------
    prior : sequence of float, one for each label
        Default: the shares of the labels among the training papers where the environment comes with a dataset, equal
        shares otherwise.

    Version history
    ---------------
    v1: paid by skill against the prior, and the full prompt shows facts; v0 by 1 minus the Brier score.
    """

    facts_in_full = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.reward_range = (brier_skill_floor([1 / len(cls.labels)] * len(cls.labels)), 1.0)

    def __init__(self, paper: Paper, *, prior: Sequence[float] | None = None, **shared: Any):
        super().__init__(paper, **shared)
        self.check_options({"prior": prior})
        self.prior = tuple(prior) if prior is not None else (1 / len(self.labels),) * len(self.labels)
        self.reward_range = (brier_skill_floor(self.prior), 1.0)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        prior = options.get("prior")
        if prior is None:
            return
        if not is_numbers(prior) or len(prior) != len(cls.labels):
            raise ValueError(f"prior must be one probability for each of {', '.join(cls.labels)}, got {prior!r}")
        brier_skill_floor(prior)

    @classmethod
    def training_options(cls, dataset: str) -> dict[str, Any]:
        labels = [label for label in map(cls.label_of, load_papers(dataset, "train")) if label is not None]
        # A label that no training paper has is still possible.
        counts = [labels.count(label) + 1 for label in cls.labels]
        return {"prior": tuple(count / sum(counts) for count in counts)}

    def pay(self, probabilities: Sequence[float], truth: int) -> RewardBreakdown:
        floor = self.reward_range[0]
        return RewardBreakdown(max(floor, brier_skill(probabilities, truth, self.prior)), floor=floor)
