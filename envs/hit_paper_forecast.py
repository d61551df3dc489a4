"""`hit-paper-forecast-v0`: how likely is a paper to become one of the most cited of its field and year?"""

from __future__ import annotations

from ..datasets.paper import HIT_CUT, HIT_LABELS
from .forecasting import ForecastEnv
from .registry import register

CRITERIA = """\
Look ahead five years and at how often later papers cite it.
- hit: among the most cited {share:.0f} % of the papers of its field and year
- ordinary: not among them"""


@register
class HitPaperForecastEnv(ForecastEnv):
    """Forecast whether a paper becomes one of the most cited 5 % of its field and year within five years.

    Description
    -----------
    Hits are rare, so a label would be a bad question: "ordinary" is nearly always right. A probability is not.

    Action
    ------
    A text that ends with one answer: every label once, with a decimal from 0 to 1, summing to 1 (within 0.02), such as
    ``<answer>hit: 0.07, ordinary: 0.93</answer>``. Anything before the tags is free.

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Never a citation count
    or anything else from later papers.

    Rewards
    -------
    1 minus the Brier score over the two labels, in [-1, 1]: 1 for certainty of the truth, -1 for certainty of
    another label, 1/2 for equal probabilities. The rule is proper: a policy does best by stating what it believes.
    Anything that is not an answer, and a cut-off answer, earns -1. The metric ``correct`` asks whether the truth got
    the largest probability, alone.

    Episode end
    -----------
    After the first message.

    Arguments
    ---------
    paper : Paper with a `citation_percentile`
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.

    Version history
    ---------------
    v0: first version.
    """

    env_id = "hit-paper-forecast-v0"
    labels = HIT_LABELS
    label_order = HIT_LABELS[::-1]
    label_field = "hit_label"
    score_fields = ("citation_percentile",)

    def criteria(self) -> str:
        return CRITERIA.format(share=100 * (1 - HIT_CUT))
