"""scisci-gym: reinforcement-learning environments on science-of-science tasks, with verifiable rewards."""

from importlib.util import find_spec

from . import envs as envs  # registers every environment and its benchmark
from .datasets.paper import Paper
from .envs.check_env import check_env
from .envs.registry import make, spec, specs
from .recipes.evaluation import scijudge as scijudge  # registers its benchmark

if find_spec("gymnasium") is not None:
    from .envs.doors.gymnasium_env import register_envs

    register_envs()

__all__ = ["Paper", "check_env", "make", "spec", "specs"]
