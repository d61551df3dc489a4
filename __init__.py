"""scisci-gym: reinforcement-learning environments on science-of-science tasks, with verifiable rewards."""

from . import envs as envs  # registers every environment and its benchmark
from .datasets.paper import Paper
from .envs.registry import make, spec, specs

__all__ = ["Paper", "make", "spec", "specs"]
