"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = (
    "build", "collect", "copies", "decode", "inverted_index", "labelling", "notices", "openalex", "paper",
    "publication_dates", "refusals", "retired", "splits",
    "synthetic", "verify", "works",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"scisci_gym.datasets.{name}")
    assert doctest.testmod(module).failed == 0
