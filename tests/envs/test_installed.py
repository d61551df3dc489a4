"""Environments of another package, from `docs/add-an-environment.md`, in a distribution that is really installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "add-an-environment.md").read_text(encoding="utf-8")
# Under another id: a copy of the project to which the page's file was added has one of this id already.
PAGE = PAGE.replace("team-size-v0", "crew-size-v0")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the page's package and its dist-info, beside a second one that is broken in two ways."""
    example, imports = (block.split("```")[0] for block in PAGE.split("```python\n")[1:3])
    body = "\n".join(line for line in example.splitlines() if not line.startswith("from ."))
    (tmp_path / "my_environments.py").write_text(imports + body)
    project = tomllib.loads(PAGE.split("```toml\n")[1].split("```")[0])["project"]
    [(group, points)] = project["entry-points"].items()
    broken = {"broken-v0": "not_there:BrokenEnv", "other-name-v0": "my_environments:TeamSizeEnv", "No Id": "json:loads"}
    for name, entries in ((project["name"], points), ("broken-things", broken)):
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {value}" for key, value in entries.items()]
        (folder / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines]) + "\n")
    return tmp_path


def python(code: str, folder: Path) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_everything_knows_it_and_a_broken_one_harms_nobody(installed: Path) -> None:
    pytest.importorskip("gymnasium")
    code = """
import sys, warnings
import scisci_gym, gymnasium
assert "scisci/CrewSize-v0" in gymnasium.registry
assert not {"torch", "tinker_cookbook", "my_environments"} & set(sys.modules), "nothing is imported before it is needed"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ids = [env_class.env_id for env_class in scisci_gym.specs()]
    scisci_gym.specs()
print(*(warning.message for warning in caught if warning.category is RuntimeWarning), sep="\\n")
assert "crew-size-v0" in ids and "disruption-v0" in ids and len(set(ids)) == len(ids)
try:
    scisci_gym.spec("broken-v0")
except ValueError as error:
    print(error)
from tinker_cookbook.eval.benchmarks import REGISTRY
assert "scisci_crew_size" in REGISTRY
assert gymnasium.make("scisci/CrewSize-v0").reset(seed=0)[0]
from typer.testing import CliRunner
from scisci_gym.cli import app
done = CliRunner().invoke(app, ["check", "crew-size-v0"])
assert done.exit_code == 0, done.output
"""
    *warned, error = python(code, installed)
    start = "environment {!r} of package 'broken-things': {} (scisci_gym.environments) "
    broken = start.format("broken-v0", "not_there:BrokenEnv")
    assert sorted(warned) == sorted(
        [
            broken + "cannot be imported: ModuleNotFoundError: No module named 'not_there'",
            start.format("other-name-v0", "my_environments:TeamSizeEnv")
            + "registers no environment 'other-name-v0'; the name of the entry point must be the env_id",
            start.format("No Id", "json:loads")
            + "registers no environment 'No Id'; the name of the entry point must be the env_id",
        ]
    )
    assert error == broken + "cannot be imported: ModuleNotFoundError: No module named 'not_there'"


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "import gymnasium; from tinker_cookbook.eval.benchmarks import REGISTRY; import scisci_gym",
        "import my_environments, gymnasium; from tinker_cookbook.eval.benchmarks import REGISTRY",
    ],
)
def test_whatever_was_imported_first(installed: Path, order: str) -> None:
    pytest.importorskip("gymnasium")
    code = f"{order}\nprint('scisci/CrewSize-v0' in gymnasium.registry, 'scisci_crew_size' in REGISTRY)"
    assert python(code, installed) == ["True True"]
