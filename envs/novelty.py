"""`novelty-v0`: does a paper join knowledge that is rarely joined?"""

from ..datasets.paper import NOVELTY_LABELS, Paper
from .kit.single_turn import LabelEnv
from .registry import register

CRITERIA = """\
Look at the journals whose papers it cites, two at a time, and at how often other papers of its time cite both. \
Its 10th percentile over these pairs says how unusual its most unusual combinations are, the median how usual it is at \
heart.
"""

BY_SHARE = """\
- novel: among the third of the papers of its year with the most unusual 10th percentile, and not among the third with \
the most usual median
- conventional: among the third of its year with the most usual median, and not among that with the most unusual 10th \
percentile
- balanced: both or neither
The labels are ranks among the papers of its year."""

BY_SIGN = """\
- novel: at the 10th percentile its pairs are rarer than chance (z < 0), and its median is not above that of its year
- conventional: at the 10th percentile they are not, and its median is above that of its year
- balanced: both or neither"""


def novelty_criteria(paper: Paper) -> str:
    """What the three labels mean under the scheme that `paper` was labelled by."""
    return CRITERIA + (BY_SIGN if paper.label_scheme == "uzzi" else BY_SHARE)


@register
class NoveltyEnv(LabelEnv):
    """Predict whether a paper combines prior knowledge in a novel or a conventional way.

    Description
    -----------
    The agent reads what was known when the paper appeared and names one of three labels. The label follows from the
    atypicality of the journal pairs in its reference list (Uzzi, Mukherjee, Stringer & Jones 2013), compared with
    null networks of the same year; nobody annotated it.

    Action
    ------
    A text that ends with exactly one of ``<answer>novel</answer>``, ``<answer>conventional</answer>``,
    ``<answer>balanced</answer>``. Anything before the tags is free; two answers, no answer, or text after the answer
    are not an answer.

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Novelty is fixed on the
    day of publication, but its scores compare the paper with the others of its year, so they are not shown.
    """

    env_id = "novelty-v0"
    labels = NOVELTY_LABELS
    score_fields = ("novelty_score", "conventionality_score")

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return paper.novelty_label

    def criteria(self) -> str:
        return novelty_criteria(self.paper)
