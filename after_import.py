"""Do something as soon as somebody imports a module, without importing it oneself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Action = Callable[[], object]


def after_import(name: str, action: Action) -> None:
    """Call `action` once, when the module `name` has been imported; now, if it is there already.

    Parameters
    ----------
    name : str
        Such as ``"gymnasium"``. It need not be installed: then nothing ever happens.
    action : callable
        What it raises, the import statement raises.
    """
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Watcher(name, action))


class _Watcher(MetaPathFinder):
    """Finds nothing itself: it wraps what the other finders find for one name, and leaves."""

    def __init__(self, name: str, action: Action):
        self.name, self.action = name, action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        spec.loader = _ThenAct(spec.loader, self.action)
        return spec


class _ThenAct(Loader):
    """A module's own loader, and then the action."""

    def __init__(self, loader: Loader, action: Action):
        self.loader, self.action = loader, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module must not see that it was watched: resources and sources are looked up through its loader.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.action()
