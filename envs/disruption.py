"""`disruption-v0`: will later papers cite this one instead of, or together with, what it builds on?"""

from __future__ import annotations

from functools import lru_cache

from ..datasets.paper import DISRUPTION_LABELS, DISRUPTION_ORDER, Paper
from .registry import register
from .single_turn import LabelEnv

CRITERIA = """\
Look ahead {horizon} and at the papers that cite it or its references.
- disruptive: they cite it without citing what it builds on ({disruptive})
- consolidating: they cite it together with what it builds on ({consolidating})
- neutral: neither prevails"""


def disruption_criteria(paper: Paper) -> str:
    """What the three labels mean under the scheme that `paper` was labelled by."""
    return _criteria(paper.cd_window, paper.label_scheme == "quantile", paper.cd_threshold)


# A dataset has one scheme, or a few.
@lru_cache(maxsize=64)
def _criteria(window: int | None, by_rank: bool, threshold: float) -> str:
    return CRITERIA.format(
        horizon="without limit" if window is None else f"{window} years",
        disruptive="top third of its field and year by CD index" if by_rank else f"CD index above {threshold:g}",
        consolidating="bottom third" if by_rank else f"CD index below -{threshold:g}",
    )


@register
class DisruptionEnv(LabelEnv):
    """Predict whether a paper disrupts or consolidates its field.

    Description
    -----------
    The agent reads what was known when the paper appeared and names one of three labels. The label follows from the
    CD index (Funk & Owen-Smith 2017) of the paper in the citation graph; nobody annotated it.

    Action
    ------
    A text that ends with exactly one of ``<answer>disruptive</answer>``, ``<answer>consolidating</answer>``,
    ``<answer>neutral</answer>``. Anything before the tags is free; two answers, no answer, or text after the answer
    are not an answer.

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Never a citation count
    or anything else from later papers.

    Rewards
    -------
    +1 for the right label, -1 otherwise. No answer, several answers and a cut-off answer earn -1 as well.

    Episode end
    -----------
    After the first message.

    Arguments
    ---------
    paper : Paper with a `disruption_label`
    prompt : "full" | "short"
        ``short`` shows title, abstract and the three labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.

    Version history
    ---------------
    v0: first version.
    """

    env_id = "disruption-v0"
    labels = DISRUPTION_LABELS
    label_order = DISRUPTION_ORDER
    label_field = "disruption_label"

    def criteria(self) -> str:
        return disruption_criteria(self.paper)
