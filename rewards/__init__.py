"""Rewards as pure functions of labels and texts. Nothing here raises on a model's text; every value is bounded."""

from .breakdown import RewardBreakdown
from .correctness import CORRECT, WRONG, correctness

__all__ = ["CORRECT", "WRONG", "RewardBreakdown", "correctness"]
