"""Environments. Every module of this folder is imported, so that adding an environment edits nothing.

Not so those of `doors/`: they need packages that do not have to be there.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

from .benchmarks import register_benchmarks  # noqa: E402  (after the environments that it lists)

register_benchmarks()
