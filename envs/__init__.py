"""Environments, one file each. Every module of this folder is imported, so that adding an environment edits nothing.

What environments are made of lives in the packages beside them, which are imported only where they are used.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    if not _module.ispkg:
        import_module(f"{__name__}.{_module.name}")

from .integrations.cookbook_benchmarks import register_benchmarks  # noqa: E402  (after the environments that it lists)

register_benchmarks()
