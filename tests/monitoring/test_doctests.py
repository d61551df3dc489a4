"""The examples in the docstrings of monitoring and reporting run."""

import doctest
from importlib import import_module

import pytest

MODULES = ("alarms", "comparison", "heartbeat", "measures", "metrics_log", "redaction", "sparkline")


@pytest.mark.parametrize("name", [*(f"monitoring.{module}" for module in MODULES), "reporting.curves"])
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(f"scisci_gym.recipes.{name}"))
    assert result.failed == 0
