"""scisci-gym: reinforcement-learning environments on science-of-science tasks, with verifiable rewards.

Importing this package registers every environment as a benchmark of the cookbook and with Gymnasium. The environments
need the cookbook, which needs torch and seconds; so they are imported when one of the names below is used, or when the
module whose registry they belong into is imported, whichever comes first. No registry is ever seen without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .after_import import after_import

if TYPE_CHECKING:
    from . import envs as envs
    from .datasets.paper import Paper
    from .envs.checking.check_env import check_env
    from .envs.registry import make, spec, specs

__all__ = ["Paper", "check_env", "make", "spec", "specs"]

_HOMES = {
    "Paper": "datasets.paper",
    "check_env": "envs.checking.check_env",
    "make": "envs.registry",
    "spec": "envs.registry",
    "specs": "envs.registry",
}
_FOLDERS = ("datasets", "envs", "evaluation", "rewards")


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_FOLDERS})


def _register_with_gymnasium() -> None:
    import_module(f"{__name__}.envs.integrations.gymnasium").register_envs()


# `envs` puts its benchmarks into the cookbook's registry itself, at the end of its own import.
after_import("tinker_cookbook.eval.benchmarks", lambda: import_module(f"{__name__}.envs"))
after_import("gymnasium", _register_with_gymnasium)
