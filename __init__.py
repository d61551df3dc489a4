"""scisci-gym: reinforcement-learning environments on science-of-science tasks, with verifiable rewards.

Importing this package imports nothing heavy: the environments, which need the cookbook, torch and seconds, are imported
when one of the names below is used. It enters the environments' names into the registries of Gymnasium and of the
cookbook as soon as somebody imports these, in milliseconds; if that fails it warns, and their import goes on.
"""

from importlib import import_module
from importlib.metadata import version
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
    if name == "__version__":
        return version("scisci-gym")
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
    import_module(f"{__name__}.envs.integrations.registration").register_envs()


after_import("gymnasium", _register_with_gymnasium)
# Importing `cookbook_benchmarks` registers the benchmarks.
after_import(
    "tinker_cookbook.eval.benchmarks", lambda: import_module(f"{__name__}.envs.integrations.cookbook_benchmarks")
)
