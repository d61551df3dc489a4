"""Novelty: atypicality of the venues that a paper cites together, and measures that need no null model.

Labels are cut from these measures in `datasets/labels`.
"""

from .atypicality import Atypicality, atypicality

__all__ = ["Atypicality", "atypicality"]
