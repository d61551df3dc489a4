"""The wheel, installed outside the repository, is the whole package: it builds data, checks and trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`scisci-gym` of the wheel, in an environment of its own that borrows only the other packages of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # A copy of what is committed: building in the tree itself would leave its build folder there.
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    # A path in a .pth file is searched, and the .pth files in it, such as that of this checkout, are not read.
    (packages / "dependencies.pth").write_text(f"{Path(typer.__file__).parents[1]}\n")
    [wheel] = folder.glob("scisci_gym-*.whl")
    python = str(folder / "venv/bin/python")
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--ignore-installed", str(wheel)], check=True)
    return folder / "venv/bin/scisci-gym"


def test_the_wheel_builds_data_checks_an_environment_and_trains(command: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TINKER_"))}

    def run(*arguments: str, status: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [str(command), *arguments], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600
        )
        assert done.returncode in status, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    python = [str(command.parent / "python"), "-c", "import scisci_gym; print(scisci_gym.__file__)"]
    where = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True).stdout
    assert Path(where.strip()).is_relative_to(command.parent.parent), "this checkout was imported, not the wheel"
    assert run("--version").startswith("scisci-gym ")
    assert "disruption-v0" in run("list")
    run("build", "synthetic", "--papers", "3000", "--out", "data")
    run("check", "disruption-v0")
    # A model that is hardly trained, of which the command says so by its exit status, will do.
    run("engine", "init-model", "model", "--corpus", "data", "--steps", "20", status=(0, 1))
    options = ("dataset=data", "model_name=model", "log_path=rl", "max_steps=3", "validation_examples=16")
    assert "finished, 3 of 3 updates" in run("train", "rl", *options)
    run("report", "rl")
    assert (tmp_path / "report.html").is_file()
