"""`disruption-v0`: is a paper disruptive, consolidating or neutral, by its CD index?"""

from functools import lru_cache
from typing import Any

from ..datasets.paper import DISRUPTION_LABELS, DISRUPTION_ORDER, Paper
from ..rewards import RewardBreakdown, ordered_correctness
from .kit.single_turn import Grade, LabelEnv
from .registry import register

MEASURE = """\
Look ahead {horizon} and at the papers that cite it or its references. Its CD index is the share of them that cite it \
without citing what it builds on, minus the share that cite both."""

BY_THRESHOLD = """
- disruptive: CD index above {threshold:g}
- consolidating: CD index below -{threshold:g}
- neutral: in between"""

BY_RANK = """ Papers are ranked by it among the papers of their field and year with enough references and citations.
- disruptive: among the third with the highest CD index
- consolidating: among the third with the lowest CD index
- neutral: in between
The labels are ranks: a disruptive paper can have a negative CD index where most papers have a lower one."""


def horizon(window: int | None) -> str:
    """How far a question looks ahead.

    Examples
    --------
    >>> horizon(5), horizon(1), horizon(None)
    ('5 years', '1 year', 'without limit')
    """
    return "without limit" if window is None else f"{window} year{'s' * (window > 1)}"


def disruption_criteria(paper: Paper) -> str:
    """What the three labels mean under the scheme that `paper` was labelled by."""
    return _criteria(paper.cd_window, paper.label_scheme == "quantile", paper.cd_threshold)


@lru_cache(maxsize=64)  # A dataset has one scheme, or a few.
def _criteria(window: int | None, by_rank: bool, threshold: float) -> str:
    return MEASURE.format(horizon=horizon(window)) + (BY_RANK if by_rank else BY_THRESHOLD.format(threshold=threshold))


@register
class DisruptionEnv(LabelEnv):
    """Predict whether a paper disrupts or consolidates its field.

    Description
    -----------
    The agent reads what was known when the paper appeared and names one of three labels. The label follows from the
    CD index (Funk & Owen-Smith 2017) of the paper in the citation graph, by a threshold or by its rank in its field and
    year, as the dataset was built; the prompt says which. No person annotated it.

    Action
    ------
    A text that ends with exactly one of ``<answer>disruptive</answer>``, ``<answer>consolidating</answer>``,
    ``<answer>neutral</answer>``. Anything before the tags is free; two answers, no answer, or text after the answer
    are not an answer.

    Rewards
    -------
    +1 for the right label, -1 otherwise. With `ordered`, a label next to the right one earns 0: neutral lies between
    consolidating and disruptive. No answer, several answers and a cut-off answer earn -1 as well.

    Arguments
    ---------
    ordered : bool
        Pay by the distance from the right label. A policy that always answers neutral then earns more than chance.
    """

    env_id = "disruption-v0"
    labels = DISRUPTION_LABELS
    label_order = DISRUPTION_ORDER

    def __init__(self, paper: Paper, *, ordered: bool = False, **shared: Any):
        super().__init__(paper, **shared)
        self.ordered = ordered

    def grade(self, text: str) -> Grade:
        grade = super().grade(text)
        if not self.ordered or not grade.valid:
            return grade
        reward = ordered_correctness(grade.predicted, self.gold_label, self.label_order)
        return grade._replace(reward=RewardBreakdown(reward))

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return paper.disruption_label

    def criteria(self) -> str:
        return disruption_criteria(self.paper)
