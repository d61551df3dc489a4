"""The package as a whole: names and layout."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("datasets", "rewards", "envs", "evaluation", "engine", "recipes")


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


def test_imports_inside_the_package_are_relative() -> None:
    """Who may import whom is written in `.importlinter`, and `make lint` checks it."""
    absolute = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            absolute += [
                f"{path.relative_to(ROOT)}:{node.lineno}" for name in names if name.split(".")[0] == "scisci_gym"
            ]
    assert absolute == []


def test_every_package_is_listed_for_the_wheel() -> None:
    import tomllib

    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {str(path.parent.relative_to(ROOT)) for path in sources()}
    assert {"scisci_gym." + folder.replace("/", ".") for folder in folders} == set(listed) - {"scisci_gym"}


def test_every_test_that_the_makefile_names_exists() -> None:
    named = re.findall(r"tests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("command", [[], ["build"], ["build", "snapshot"], ["train"], ["demo"], ["engine"]])
def test_help_everywhere(command: list[str]) -> None:
    from typer.testing import CliRunner

    from scisci_gym.cli import app

    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    assert "Usage" in done.output


@pytest.mark.parametrize("command", ["demo", "check"])
def test_a_command_that_makes_its_model_trains_it_here_by_default(command: str, monkeypatch) -> None:
    from typer.testing import CliRunner

    from scisci_gym.cli import app

    monkeypatch.setenv("COLUMNS", "300")
    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert "default: local, since the model is made on this machine" in shown
    assert "TINKER_API_KEY" not in shown


@pytest.mark.parametrize("command", [["play"], ["train"], ["eval"]])
def test_a_paragraph_of_help_breaks_only_where_the_terminal_ends(command: list[str], monkeypatch) -> None:
    from typer.testing import CliRunner

    from scisci_gym.cli import app

    monkeypatch.setenv("COLUMNS", "1000")
    lines = CliRunner().invoke(app, [*command, "--help"]).output.split("\u256d")[0].splitlines()
    _, *paragraphs = [paragraph for paragraph in "\n".join(line.strip() for line in lines).split("\n\n") if paragraph]
    assert len(paragraphs) == 2
    assert not any("\n" in paragraph.strip() for paragraph in paragraphs)


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        ("plya disruption-v0", "No such command 'plya'", "Did you mean 'play'? See `scisci-gym --help`."),
        ("play", "Missing argument 'ID'", "`scisci-gym play --help`"),
        ("show disruption-v0 --datset x", "No such option: --datset", "--dataset"),
        ("play disruption-v0 --index first", "Invalid value for '--index'", "`scisci-gym play --help`"),
        ("list disruption-v0", "unexpected extra argument(s) (disruption-v0)", "`scisci-gym list --help`"),
        ("check --all", "No such option: --all", "`scisci-gym check --help`"),
        ("eval --split", "Option '--split' requires an argument", "`scisci-gym --help`"),
        ("eval runs/no-such-run", "runs/no-such-run is not a run", "give the log_path of a training run"),
        ("eval --all --dataset no-such-folder", "no-such-folder is not a dataset", "build one with `scisci-gym build`"),
        ("engine sevre", "No such command 'sevre'", "Did you mean 'serve'?"),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line(words: str, cause: str, remedy: str) -> None:
    from typer.testing import CliRunner

    from scisci_gym.cli import app

    done = CliRunner().invoke(app, words.split(), prog_name="scisci-gym")
    assert done.exit_code == 2
    assert done.output.startswith("error: ")
    assert done.output.count("\n") == 1
    assert cause in done.output
    assert remedy in done.output


def test_the_version_is_that_of_the_project() -> None:
    """As an attribute, of the command, and of `python -m scisci_gym`."""
    import tomllib

    import scisci_gym

    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert scisci_gym.__version__ == stated
    shown = subprocess.run(
        [sys.executable, "-m", "scisci_gym", "--version"], capture_output=True, text=True, check=True, cwd=ROOT / "docs"
    )
    assert shown.stdout == f"scisci-gym {stated}\n"
