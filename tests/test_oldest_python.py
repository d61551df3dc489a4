"""What is installed here, with the optional packages where these are, installs on the oldest Python that we support."""

import tomllib
from importlib.metadata import distributions
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_every_package_admits_the_oldest_python() -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    oldest = f"{ours.removeprefix('>=')}.0"
    found = {each.name: each.metadata["Requires-Python"] for each in distributions()}
    assert len(found) > 100
    assert [name for name, wants in found.items() if wants and not SpecifierSet(wants).contains(oldest)] == []
