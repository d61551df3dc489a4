"""`novelty-forecast-v0`: how likely is each novelty label?"""

from __future__ import annotations

from .kit.forecasting import ForecastEnv, SkillForecastEnv
from .novelty import NoveltyEnv
from .registry import register


@register
class NoveltyForecastEnv(ForecastEnv, NoveltyEnv):
    """Forecast, with probabilities, whether a paper combines prior knowledge in a novel way.

    Description
    -----------
    The same question as ``novelty-v0``, answered by a probability for every label instead of one label.

    Action
    ------
    A text that ends with one answer: every label once, with a decimal from 0 to 1, summing to 1 (within 0.02), such as
    ``<answer>novel: 0.2, conventional: 0.5, balanced: 0.3</answer>``. Anything before the tags is free.
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
