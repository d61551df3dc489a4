"""Rewards as pure functions of labels and texts. Nothing here raises on a model's text; every value is bounded."""

from .composite import CORRECT, MAX_ADAPTATION, MAX_REASONING, WRONG, RewardBreakdown, adaptation, correctness
from .diagnostics import group_diagnostics
from .forecast import brier_reward, brier_skill, brier_skill_floor, distance_reward, rank_distance_reward
from .quotes import best_quotes, quote_credit

__all__ = [
    "CORRECT",
    "MAX_ADAPTATION",
    "MAX_REASONING",
    "WRONG",
    "RewardBreakdown",
    "adaptation",
    "best_quotes",
    "brier_reward",
    "brier_skill",
    "brier_skill_floor",
    "correctness",
    "distance_reward",
    "group_diagnostics",
    "quote_credit",
    "rank_distance_reward",
]
