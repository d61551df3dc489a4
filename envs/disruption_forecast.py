"""`disruption-forecast-v0`: how likely is each disruption label?"""

from .disruption import DisruptionEnv
from .kit.forecasting import ForecastEnv, SkillForecastEnv
from .registry import register


@register
class DisruptionForecastEnv(ForecastEnv, DisruptionEnv):
    """Forecast, with probabilities, whether a paper disrupts or consolidates its field.

    Description
    -----------
    The same question as ``disruption-v0``, answered by a probability for every label instead of one label.
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
