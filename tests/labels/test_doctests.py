"""Every example in a docstring of the labels runs."""

import doctest
import importlib

import pytest

MODULES = """
commonness csr disruption disruption_family disruption_null first_pairs graph graph_build impact kernel label_schemes
label_table labels_cli novelty null_models percentiles scale_out venue_pairs
""".split()


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"scisci_gym.datasets.{name}"))
    assert result.failed == 0
