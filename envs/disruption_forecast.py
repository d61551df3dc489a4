"""`disruption-forecast-v0`: how likely is each disruption label?"""

from __future__ import annotations

from ..datasets.paper import DISRUPTION_LABELS, DISRUPTION_ORDER
from .disruption import disruption_criteria
from .kit.forecasting import ForecastEnv
from .registry import register


@register
class DisruptionForecastEnv(ForecastEnv):
    """Forecast, with probabilities, whether a paper disrupts or consolidates its field.

    Description
    -----------
    The same question as ``disruption-v0``, answered by a probability for every label instead of one label.

    Action
    ------
    A text that ends with one answer: every label once, with a decimal from 0 to 1, summing to 1 (within 0.02), such as
    ``<answer>disruptive: 0.2, consolidating: 0.5, neutral: 0.3</answer>``. Anything before the tags is free.

    Observation
    -----------
    One user message: title, abstract, year, field, venue, and the reference list if asked for. Never a citation count
    or anything else from later papers.

    Rewards
    -------
    1 minus the Brier score over the three labels, in [-1, 1]: 1 for certainty of the truth, -1 for certainty of
    another label, 1/3 for equal probabilities. The rule is proper: a policy does best by stating what it believes.
    Anything that is not an answer, and a cut-off answer, earns -1. The metric ``correct`` asks whether the truth got
    the largest probability, alone.

    Episode end
    -----------
    After the first message.

    Arguments
    ---------
    paper : Paper with a `disruption_label`
    prompt : "full" | "short"
        ``short`` shows title, abstract and the labels only, for models of a few million parameters.
    references : bool
        Show the titles of the papers that it cites.

    Version history
    ---------------
    v0: first version.
    """

    env_id = "disruption-forecast-v0"
    labels = DISRUPTION_LABELS
    label_order = DISRUPTION_ORDER
    label_field = "disruption_label"

    def criteria(self) -> str:
        return disruption_criteria(self.paper)
