"""The examples in docstrings of the evaluation are true."""

import doctest
from importlib import import_module
from pkgutil import iter_modules

import pytest

from scisci_gym.recipes import evaluation

# Needs a package that does not have to be there.
MODULES = sorted({module.name for module in iter_modules(evaluation.__path__)} - {"inspect_tasks"})


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = import_module(f"scisci_gym.recipes.evaluation.{name}")
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    modules = [import_module(f"scisci_gym.recipes.evaluation.{name}") for name in MODULES]
    found = doctest.DocTestFinder()
    assert sum(bool(test.examples) for module in modules for test in found.find(module)) >= 15
