"""`disruption-forecast-v0`: how likely is each disruption label?"""

from __future__ import annotations

from .disruption import DisruptionEnv
from .kit.forecasting import ForecastEnv, SkillForecastEnv
from .registry import register


@register
class DisruptionForecastEnv(ForecastEnv, DisruptionEnv):
    """Forecast, with probabilities, whether a paper disrupts or consolidates its field.

    Description
    -----------
    The same question as ``disruption-v0``, answered by a probability for every label instead of one label.

    Action
    ------
    A text that ends with one answer: every label once, with a decimal from 0 to 1, summing to 1 (within 0.02), such as
    ``<answer>disruptive: 0.2, consolidating: 0.5, neutral: 0.3</answer>``. Anything before the tags is free.
    """

    env_id = "disruption-forecast-v0"


@register
class DisruptionForecastV1Env(SkillForecastEnv, DisruptionForecastEnv):
    """Forecast, with probabilities and paid by skill, whether a paper disrupts or consolidates its field.

    Description
    -----------
    The question of ``disruption-forecast-v0``. The reward is the skill of the forecast: 0 is what somebody
    earns who states how frequent the labels are, so that everything above 0 comes from reading the paper.
    """

    env_id = "disruption-forecast-v1"
