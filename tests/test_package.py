"""The package as a whole: names, layout, direction of imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("datasets", "rewards", "envs", "evaluation", "engine", "recipes")

# Who may import whom, inside the package. `datasets` and `rewards` stand on their own, `engine` knows nobody.
ALLOWED = {
    "datasets": {"datasets"},
    "rewards": {"rewards"},
    "engine": {"engine"},
    "envs": {"envs", "rewards", "datasets"},
    "evaluation": {"evaluation", "envs", "rewards", "datasets"},
    "recipes": {"recipes", "evaluation", "envs", "rewards", "datasets", "engine"},
}
FORBIDDEN = {"datasets": {"torch", "tinker", "tinker_cookbook"}, "rewards": {"torch", "tinker", "tinker_cookbook"}}


def test_datasets_is_hugging_faces_from_the_root() -> None:
    code = (
        "import datasets, scisci_gym, scisci_gym.datasets.paper as ours; print(datasets.__file__); print(ours.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    theirs, ours = done.stdout.split()
    assert "site-packages" in theirs
    assert Path(ours).resolve() == ROOT / "datasets" / "paper.py"
    assert not (ROOT / "datasets" / "__init__.py").exists()


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imported_packages(path: Path) -> tuple[set[str], set[str]]:
    """(our own packages, top-level outside names) that a file imports."""
    own, outside = set(), set()
    here = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            full = [*base, *(node.module.split(".") if node.module else [])]
            own |= {full[0]} if full else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            outside.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
    return own, outside


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    own, outside = imported_packages(path)
    assert own <= ALLOWED[package]
    assert not outside & FORBIDDEN.get(package, set())
    assert "scisci_gym" not in outside, "imports inside the package are relative"


def test_every_package_is_listed_for_the_wheel() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {str(path.parent.relative_to(ROOT)) for path in sources()}
    assert {"scisci_gym." + folder.replace("/", ".") for folder in folders} == set(listed) - {"scisci_gym"}


@pytest.mark.parametrize("command", [[], ["build"], ["build", "snapshot"], ["train"], ["demo"], ["engine"]])
def test_help_everywhere(command: list[str]) -> None:
    from typer.testing import CliRunner

    from scisci_gym.cli import app

    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.output
