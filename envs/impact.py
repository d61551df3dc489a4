"""`impact-v0`: disruption and novelty of a paper in one answer."""

from itertools import product

from ..datasets.paper import DISRUPTION_LABELS, NOVELTY_LABELS, Paper
from ..rewards import RewardBreakdown
from .disruption import disruption_criteria
from .kit.answers import answer_text
from .kit.single_turn import Grade, LabelEnv
from .novelty import novelty_criteria
from .registry import register

ENDING = (
    "one label of each kind between answer tags, disruption first, and nothing after them:\n"
    "<answer>DISRUPTION, NOVELTY</answer>"
)


@register
class ImpactEnv(LabelEnv):
    """Predict in one answer how a paper is taken up and how it combines what it builds on.

    Description
    -----------
    Two labels for one paper: disruption, from the CD index of later citations, and novelty, from the atypicality of
    its reference list. They are nearly independent in real data, so one does not give the other away.

    Action
    ------
    A text that ends with ``<answer>DISRUPTION, NOVELTY</answer>``: one of disruptive, consolidating, neutral, a comma,
    and one of novel, conventional, balanced. In this order, both, once.

    Rewards
    -------
    +1 if both labels are right, 0 if one is, -1 if neither is. Anything that is not an answer, and a cut-off answer,
    earns -1. The metric ``correct`` counts both right.
    """

    env_id = "impact-v0"
    labels = tuple(f"{disruption}, {novelty}" for disruption, novelty in product(DISRUPTION_LABELS, NOVELTY_LABELS))
    label_parts = (DISRUPTION_LABELS, NOVELTY_LABELS)
    score_fields = ("cd_index", "novelty_score", "conventionality_score")
    ending = ENDING

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        if paper.disruption_label is None or paper.novelty_label is None:
            return None
        return f"{paper.disruption_label}, {paper.novelty_label}"

    @classmethod
    def hint(cls) -> str:
        return " ".join((*DISRUPTION_LABELS, *NOVELTY_LABELS))

    def criteria(self) -> str:
        disruption, novelty = disruption_criteria(self.paper), novelty_criteria(self.paper)
        return f"Two questions.\n\nDisruption. {disruption}\n\nNovelty. {novelty}"

    @classmethod
    def parse(cls, text: str) -> str | None:
        # The space after the comma is optional.
        disruption, _, novelty = (answer_text(text) or "").partition(",")
        label = f"{disruption.rstrip()}, {novelty.lstrip()}"
        # ASCII only: lowering would turn other letters into ours, such as the Kelvin sign into k.
        return label if label.isascii() and (label := label.lower()) in cls.labels else None

    def grade(self, text: str) -> Grade:
        label = self.parse(text)
        if label is None:
            return self.no_answer()
        right = [answer == true for answer, true in zip(label.split(", "), self._label.split(", "), strict=True)]
        details: dict[str, str | int | float] = {"disruption_right": right[0], "novelty_right": right[1]}
        reward = RewardBreakdown(self.partial_correctness(label, self._label))
        return Grade(reward, label, label == self._label, valid=True, details=details)
