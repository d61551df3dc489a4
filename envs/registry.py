"""The registry: environment id -> class. An environment registers itself; nothing else has to know about it.

Environments of other packages are found by their entry points, see `ENTRY_POINTS`.
"""

import difflib
import warnings
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from ..datasets.paper import Paper
from . import ENTRY_POINTS, import_environments, installed_environments
from .kit.base import SciSciEnv
from .kit.cards import complete_card

_SPECS: dict[str, type[SciSciEnv]] = {}
_LOADED: set[EntryPoint] = set()
_PROBLEMS: dict[str, str] = {}
"""Environments of other packages that are not registered, by id, and why."""
EnvClass = TypeVar("EnvClass", bound=type[SciSciEnv])


def register(env_class: EnvClass) -> EnvClass:
    """Class decorator that puts an environment into the registry under its `env_id`, and completes its docstring.

    Sections of the card that the class leaves out are those of its bases.

    Raises `ValueError` if the id is taken by another class.
    """
    taken = _SPECS.setdefault(env_class.env_id, env_class)
    if taken is not env_class:
        raise ValueError(f"{env_class.env_id!r} is registered already, by {taken.__module__}.{taken.__name__}")
    env_class.__doc__ = complete_card(env_class)
    return env_class


def _import_all() -> None:
    """Import this package's environments and those of others; one that cannot be is a warning."""
    import_environments()
    for entry in installed_environments():
        if entry in _LOADED:
            continue
        _LOADED.add(entry)  # first, because what is imported may ask for another environment
        problem = f"registers no environment {entry.name!r}; the name of the entry point must be the env_id"
        try:
            entry.load()
        except Exception as error:
            problem = f"cannot be imported: {type(error).__name__}: {error}"
        else:
            if entry.name in _SPECS:
                continue
        package = entry.dist.name if entry.dist else "unknown"
        problem = f"environment {entry.name!r} of package {package!r}: {entry.value} ({ENTRY_POINTS}) {problem}"
        _PROBLEMS.setdefault(entry.name, problem)
        warnings.warn(problem, RuntimeWarning, stacklevel=3)


def specs() -> list[type[SciSciEnv]]:
    """The registered environments in order of their ids."""
    _import_all()
    return [_SPECS[env_id] for env_id in sorted(_SPECS)]


def spec(env_id: str) -> type[SciSciEnv]:
    """The environment registered under `env_id`.

    Raises `ValueError` if there is none; it names the closest ids, or why that of another package is not there.
    """
    if env_id not in _SPECS:
        _import_all()
    if env_id not in _SPECS:
        if env_id in _PROBLEMS:
            raise ValueError(_PROBLEMS[env_id])
        close = difflib.get_close_matches(env_id, _SPECS, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}? All: `scisci-gym list`" if close else "`scisci-gym list` shows all"
        raise ValueError(f"no environment {env_id!r}; {hint}")
    return _SPECS[env_id]


def make(env_id: str, *papers: Paper, **options: Any) -> SciSciEnv:
    """Make an environment for one episode.

    There is one paper, or two for pairwise environments; `options` are keywords of the environment's constructor.

    Examples
    --------
    >>> from scisci_gym import Paper, make
    >>> make("disruption-v0", Paper(openalex_id="W1", title="A title", cd_index=0.4)).gold_answer()
    '<answer>disruptive</answer>'
    """
    env_class = spec(env_id)
    if options and (unknown := sorted(set(options) - set(known := env_class.option_names()))):
        raise ValueError(f"{env_id} has no option {', '.join(map(repr, unknown))}; it has {', '.join(known)}")
    return env_class(*papers, **options)
