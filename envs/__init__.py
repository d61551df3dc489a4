"""Environments, one file each: every module of this folder is imported when the registry is first asked for one.

What environments are made of lives in the packages beside them, which are imported only where they are used.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pkgutil import iter_modules
from typing import Any

ENTRY_POINTS = "scisci_gym.environments"
"""Group of the entry points by which other packages add environments: from the id to the class, ``module:Class``."""


def __getattr__(name: str) -> Any:
    if name in {module.name for module in iter_modules(__path__)}:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def import_environments() -> None:
    """Import every module beside this one, so that each environment registers itself."""
    for module in iter_modules(__path__):
        if not module.ispkg and module.name != "cli":
            import_module(f"{__name__}.{module.name}")


@cache
def installed_environments() -> EntryPoints:
    """The entry points of environments of other packages, none of them imported."""
    return entry_points(group=ENTRY_POINTS)
