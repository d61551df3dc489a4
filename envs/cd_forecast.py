"""`cd-forecast-v0`: what will the CD index of a paper be?"""

from __future__ import annotations

from ..datasets.paper import DISRUPTION_LABELS, DISRUPTION_ORDER, Paper, disruption_label
from ..rewards import RewardBreakdown, distance_reward
from .disruption import MEASURE, horizon
from .kit.answers import format_number, parse_number
from .kit.single_turn import NO_ANSWER, Grade, LabelEnv
from .registry import register

CRITERIA = MEASURE + " It lies between -1 (all cite both) and 1 (all cite it without what it builds on)."

ENDING = (
    "the CD index that you expect, as a decimal, between answer tags and nothing after it:\n<answer>NUMBER</answer>"
)

TYPICAL = {"disruptive": 0.5, "consolidating": -0.5, "neutral": 0.0}


@register
class CDForecastEnv(LabelEnv):
    """Forecast the CD index of a paper as a number.

    Description
    -----------
    The agent reads what was known when the paper appeared and states its CD index (Funk & Owen-Smith 2017).

    Action
    ------
    A text that ends with one decimal number in [-1, 1], such as ``<answer>-0.05</answer>``. No exponent, no percent
    sign, no interval. Anything before the tags is free.

    Rewards
    -------
    1 minus the distance to the CD index, in [-1, 1]. Stating the median of what it believes is the best a policy can
    do. Most CD indices lie near 0, so 0 earns nearly 1: compare with that, not with 0. Anything that is not an answer,
    and a cut-off answer, earns -1. The metric ``correct`` asks whether forecast and truth have the same label
    (disruptive, consolidating or neutral at the paper's threshold).
    """

    env_id = "cd-forecast-v0"
    labels = DISRUPTION_LABELS
    ending = ENDING
    label_order = DISRUPTION_ORDER
    asks_for = "number"

    def __init__(self, paper: Paper, *, prompt: str = "full", references: bool = False):
        super().__init__(paper, prompt=prompt, references=references)
        assert paper.cd_index is not None
        self._truth = float(paper.cd_index)

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return None if paper.cd_index is None else disruption_label(paper.cd_index, paper.cd_threshold)

    @classmethod
    def hint(cls) -> str:
        return "CD index"

    @classmethod
    def answer_for(cls, label: str) -> str:
        return format_number(TYPICAL[label])

    @classmethod
    def honest_guess(cls) -> str | None:
        return format_number(0.0)

    @property
    def truth(self) -> float:
        return self._truth

    def gold_answer(self) -> str:
        return format_number(self._truth)

    def criteria(self) -> str:
        return CRITERIA.format(horizon=horizon(self.paper.cd_window))

    def grade(self, text: str) -> Grade:
        forecast = parse_number(text, -1.0, 1.0)
        if forecast is None:
            return NO_ANSWER
        predicted = disruption_label(forecast, self.paper.cd_threshold)
        return Grade(
            RewardBreakdown(distance_reward(forecast, self._truth)),
            predicted,
            predicted == self._label,
            valid=True,
            details={"forecast": forecast, "cd_index": self._truth},
        )
