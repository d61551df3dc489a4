"""`cd-forecast-v0`: what will the CD index of a paper be?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..datasets.paper import DISRUPTION_LABELS, DISRUPTION_ORDER, Paper, disruption_label
from ..datasets.store import load_papers
from ..rewards import RewardBreakdown, distance_reward, rank_distance_reward
from .disruption import MEASURE, horizon
from .kit.answers import format_number, parse_number
from .kit.base import is_numbers
from .kit.single_turn import Grade, LabelEnv
from .registry import register

CRITERIA = MEASURE + " It lies between -1 (all cite both) and 1 (all cite it without what it builds on)."

ENDING = (
    "the CD index that you expect, as a decimal, between answer tags and nothing after it:\n<answer>NUMBER</answer>"
)

TYPICAL = {"disruptive": 0.5, "consolidating": -0.5, "neutral": 0.0}


@register
class CDForecastEnv(LabelEnv):
    """Forecast the CD index of a paper as a number.

    Description
    -----------
    The agent reads what was known when the paper appeared and states its CD index (Funk & Owen-Smith 2017).

    Action
    ------
    A text that ends with one decimal number in [-1, 1], such as ``<answer>-0.05</answer>``. No exponent, no percent
    sign, no interval. Anything before the tags is free.

    Rewards
    -------
    1 minus the distance to the CD index, in [-1, 1]. Stating the median of what it believes is the best a policy can
    do. Most CD indices lie near 0, so 0 earns nearly 1: compare with that, not with 0. Anything that is not an answer,
    and a cut-off answer, earns -1. The metric ``correct`` asks whether forecast and truth have the same label
    (disruptive, consolidating or neutral at the paper's threshold).
    """

    env_id = "cd-forecast-v0"
    labels = DISRUPTION_LABELS
    ending = ENDING
    label_order = DISRUPTION_ORDER
    asks_for = "number"

    def __init__(self, paper: Paper, **shared: Any):
        super().__init__(paper, **shared)
        assert paper.cd_index is not None
        self._truth = float(paper.cd_index)

    @classmethod
    def label_of(cls, paper: Paper) -> str | None:
        return None if paper.cd_index is None else disruption_label(paper.cd_index, paper.cd_threshold)

    @classmethod
    def hint(cls) -> str:
        return "CD index"

    @classmethod
    def answer_for(cls, label: str) -> str:
        return format_number(TYPICAL[label])

    @classmethod
    def honest_guess(cls) -> str | None:
        return format_number(0.0)

    @property
    def truth(self) -> float:
        return self._truth

    def gold_answer(self) -> str:
        return format_number(self._truth)

    def criteria(self) -> str:
        return CRITERIA.format(horizon=horizon(self.paper.cd_window))

    def pay(self, forecast: float) -> float:
        """What a forecast in [-1, 1] earns."""
        return distance_reward(forecast, self._truth)

    def grade(self, text: str) -> Grade:
        forecast = parse_number(text, -1.0, 1.0)
        if forecast is None:
            return self.no_answer()
        predicted = disruption_label(forecast, self.paper.cd_threshold)
        return Grade(
            RewardBreakdown(self.pay(forecast)),
            predicted,
            predicted == self._label,
            valid=True,
            details={"forecast": forecast, "cd_index": self._truth},
        )


RANKS = 201
"""Values that stand for the CD indices of all training papers."""


@register
class CDForecastV1Env(CDForecastEnv):
    """Forecast the CD index of a paper as a number, paid by rank.

    Description
    -----------
    The question of ``cd-forecast-v0``. There, most CD indices lie so near 0 that 0 earns nearly 1 and reading the paper
    hardly pays. Here, forecast and truth are compared by their ranks among the training papers.

    Rewards
    -------
    1 - 2 |F(forecast) - F(truth)|, in [-1, 1], with F(x) the share of training papers with a CD index below x, ties by
    half. Stating the median of what it believes is the best a policy can do; stating the median of all papers earns 0.5
    on average where no two have the same CD index. Anything that is not an answer, and a cut-off answer, earns -1. The
    metric ``correct`` asks whether forecast and truth have the same label.

    Arguments
    ---------
    ranks : sequence of float, ascending
        CD indices that F counts. Default: 201 quantiles of the training papers where the environment comes with a
        dataset; otherwise F(x) = (1 + x) / 2, which makes the reward that of v0.

    Version history
    ---------------
    v1: paid by rank, and the full prompt shows facts; v0 by distance.
    """

    env_id = "cd-forecast-v1"
    facts_in_full = True

    def __init__(self, paper: Paper, *, ranks: Sequence[float] | None = None, **shared: Any):
        super().__init__(paper, **shared)
        self.check_options({"ranks": ranks})
        self.ranks = ranks

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        ranks = options.get("ranks")
        if ranks is not None and not (is_numbers(ranks) and len(ranks) and list(ranks) == sorted(ranks)):
            shown = list(ranks)[:5] if is_numbers(ranks) else ranks
            raise ValueError(f"ranks must be CD indices in ascending order, at least one, got {shown!r}")

    @classmethod
    def training_options(cls, dataset: str) -> dict[str, Any]:
        indices = [paper.cd_index for paper in load_papers(dataset, "train") if paper.cd_index is not None]
        if not indices:
            return {}
        shares = (np.arange(RANKS) + 0.5) / RANKS
        return {"ranks": tuple(np.quantile(indices, shares, method="inverted_cdf").tolist())}

    def pay(self, forecast: float) -> float:
        return super().pay(forecast) if self.ranks is None else rank_distance_reward(forecast, self._truth, self.ranks)
