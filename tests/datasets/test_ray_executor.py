"""Ray where it is not installed; tests/datasets/labels/test_ray.py has it."""

import sys

import pytest

from scisci_gym.datasets.ray_executor import RayExecutor


@pytest.mark.parametrize("error", [ImportError, ValueError])
def test_without_ray_the_error_names_the_option_and_what_to_install(monkeypatch, error):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(error, match=r"^--ray needs Ray: pip install 'scisci-gym\[ray\]'$"):
        RayExecutor("--ray", "auto")
