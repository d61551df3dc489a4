"""`hit-paper-forecast-v0`: how likely is a paper to become one of the most cited of its field and year?"""

from ..datasets.paper import HIT_CUT, HIT_LABELS, Paper
from .disruption import horizon
from .kit.forecasting import ForecastEnv, SkillForecastEnv
from .registry import register

CRITERIA = """\
Look ahead {horizon} and at how often papers cite it.
- hit: at least {cut:.0f} % of all papers of its field and year are cited less often
- ordinary: anything else
{share}"""

SHARE = "The papers in question have a minimum of citations: {share:.1f} % of those in the training set are hits."
NO_SHARE = "Papers in question usually have a minimum of citations, so more of them are hits than of all papers."


@register
class HitPaperForecastEnv(ForecastEnv):
    """Forecast whether a paper will be cited more often than 95 % of its field and year.

    Description
    -----------
    A hit is a paper of which at least 95 % of all papers of its field and year are cited less often within the window
    of its labels. The question asks for probabilities and not for a label, because hits are rare and the label
    "ordinary" would nearly always be right. Labelled papers have a minimum of citations, so more than 5 % of them are
    hits: the prompt states the share in the training set.
    """

    env_id = "hit-paper-forecast-v0"
    labels = HIT_LABELS
    label_order = HIT_LABELS[::-1]
    score_fields = ("citation_percentile",)

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return paper.hit_label

    def criteria(self) -> str:
        share = self.paper.hit_share
        stated = NO_SHARE if share is None else SHARE.format(share=100 * share)
        return CRITERIA.format(horizon=horizon(self.paper.cd_window), cut=100 * HIT_CUT, share=stated)


@register
class HitPaperForecastV1Env(SkillForecastEnv, HitPaperForecastEnv):
    """Forecast, paid by skill, whether a paper will be cited more often than 95 % of its field and year.

    Description
    -----------
    The question of ``hit-paper-forecast-v0``. The reward is the skill of the forecast: 0 is what somebody
    earns who states how frequent the labels are, so that everything above 0 comes from reading the paper.
    """

    env_id = "hit-paper-forecast-v1"
