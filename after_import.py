"""Do something as soon as somebody imports a module, without importing it oneself."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, action: Callable[[], object]) -> None:
    """Call `action` once, when the module `name` has been imported; now, if it is there already.

    Parameters
    ----------
    name : str
        Such as ``"gymnasium"``. It need not be installed: then nothing ever happens.
    action : callable
        What it raises becomes a warning: whoever imports `name` did not ask for it.
    """
    if name in sys.modules:
        _attempt(name, action)
    else:
        sys.meta_path.insert(0, _Finder(name, action))


def _attempt(name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as error:
        warnings.warn(
            f"scisci-gym did not register its environments with {name}: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )


class _Finder(MetaPathFinder):
    """Finds the module `name` where the other finders find it, and acts after it has been executed."""

    def __init__(self, name: str, action: Callable[[], object]):
        self.name, self.action, self.searching = name, action, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


class _Loader(Loader):
    """A module's own loader, and then the action."""

    def __init__(self, loader: Loader, finder: _Finder):
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must not see that it was watched: resources and sources are looked up through its loader.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
            _attempt(self.finder.name, self.finder.action)
