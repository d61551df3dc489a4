"""Rewards as pure functions of labels and texts. Nothing here raises on a model's text; every value is bounded."""

from .composite import (
    CORRECT,
    MAX_ADAPTATION,
    MAX_REASONING,
    WRONG,
    RewardBreakdown,
    adaptation,
    correctness,
    ordered_correctness,
)
from .diagnostics import group_diagnostics
from .forecast import brier_reward, brier_skill, brier_skill_floor, distance_reward, rank_distance_reward, rank_share
from .quotes import best_quotes, evidence_credit, passages_of, quote_credit

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
    "evidence_credit",
    "group_diagnostics",
    "ordered_correctness",
    "passages_of",
    "quote_credit",
    "rank_distance_reward",
    "rank_share",
]
