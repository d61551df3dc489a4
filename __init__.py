"""scisci-gym: reinforcement-learning environments on science-of-science tasks, with verifiable rewards."""

from .datasets.paper import Paper

__all__ = ["Paper"]
