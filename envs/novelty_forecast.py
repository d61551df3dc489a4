"""`novelty-forecast-v0`: how likely is each novelty label?"""

from .kit.forecasting import ForecastEnv, SkillForecastEnv
from .novelty import NoveltyEnv
from .registry import register


@register
class NoveltyForecastEnv(ForecastEnv, NoveltyEnv):
    """Forecast, with probabilities, whether a paper combines prior knowledge in a novel way.

    Description
    -----------
    The same question as ``novelty-v0``, answered by a probability for every label instead of one label.
    """

    env_id = "novelty-forecast-v0"


@register
class NoveltyForecastV1Env(SkillForecastEnv, NoveltyForecastEnv):
    """Forecast, with probabilities and paid by skill, whether a paper combines prior knowledge in a novel way.

    Description
    -----------
    The question of ``novelty-forecast-v0``. The reward is the skill of the forecast: 0 is what somebody
    earns who states how frequent the labels are, so that everything above 0 comes from reading the paper.
    """

    env_id = "novelty-forecast-v1"
