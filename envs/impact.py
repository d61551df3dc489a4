"""`impact-v0`: disruption and novelty of a paper in one answer."""

from __future__ import annotations

import re
from itertools import product

from ..datasets.paper import DISRUPTION_LABELS, NOVELTY_LABELS, Paper
from ..rewards import RewardBreakdown, correctness
from .disruption import disruption_criteria
from .kit.answers import answer_text
from .kit.base import require_label
from .kit.single_turn import NO_ANSWER, Grade, LabelEnv
from .novelty import novelty_criteria
from .registry import register

_PAIR = re.compile(
    rf"({'|'.join(DISRUPTION_LABELS)})\s*,\s*({'|'.join(NOVELTY_LABELS)})",
    # ASCII: without it, ignoring case would let other letters pass, such as a long s.
    re.ASCII | re.IGNORECASE,
)

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

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Never a citation count
    or anything else from later papers.

    Rewards
    -------
    +1 if both labels are right, 0 if one is, -1 if neither is. Anything that is not an answer, and a cut-off answer,
    earns -1. The metric ``correct`` counts both right.

    Episode end
    -----------
    After the first message.

    Arguments
    ---------
    paper : Paper with a `disruption_label` and a `novelty_label`
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.

    Version history
    ---------------
    v0: first version.
    """

    env_id = "impact-v0"
    labels = tuple(f"{disruption}, {novelty}" for disruption, novelty in product(DISRUPTION_LABELS, NOVELTY_LABELS))
    label_parts = (DISRUPTION_LABELS, NOVELTY_LABELS)
    label_field = "disruption_label"
    score_fields = ("cd_index", "novelty_score", "conventionality_score")
    ending = ENDING

    def __init__(self, paper: Paper, *, prompt: str = "full", references: bool = False):
        super().__init__(paper, prompt=prompt, references=references)
        self._label = f"{self._label}, {require_label(self, paper.novelty_label, 'novelty_label')}"

    @classmethod
    def has_label(cls, paper: Paper) -> bool:
        return paper.disruption_label is not None and paper.novelty_label is not None

    @classmethod
    def hint(cls) -> str:
        return " ".join((*DISRUPTION_LABELS, *NOVELTY_LABELS))

    def criteria(self) -> str:
        disruption, novelty = disruption_criteria(self.paper), novelty_criteria(self.paper)
        return f"Two questions.\n\nDisruption. {disruption}\n\nNovelty. {novelty}"

    def grade(self, text: str) -> Grade:
        predicted = _parse_pair(text)
        if predicted is None:
            return NO_ANSWER
        parts = [correctness(said, true) for said, true in zip(predicted, self._label.split(", "), strict=True)]
        label = f"{predicted[0]}, {predicted[1]}"
        details: dict[str, str | int | float] = {"disruption_right": parts[0] > 0, "novelty_right": parts[1] > 0}
        return Grade(RewardBreakdown(sum(parts) / 2), label, label == self._label, valid=True, details=details)


def _parse_pair(text: str) -> tuple[str, str] | None:
    """The two labels of an answer, or None."""
    answer = answer_text(text)
    match = _PAIR.fullmatch(answer) if answer is not None else None
    return (match.group(1).lower(), match.group(2).lower()) if match else None
