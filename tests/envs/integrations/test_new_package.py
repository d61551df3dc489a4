"""The template of a package with an environment: what it writes works as it is."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.envs.integrations.new_package import new_package


def test_its_own_tests_pass_once_it_is_installed(tmp_path: Path) -> None:
    folder = tmp_path / "crew-sizes"
    project, module, test = new_package(folder, "crew-size-v1")
    [(group, points)] = tomllib.loads(project.read_text())["project"]["entry-points"].items()
    assert (group, points) == ("scisci_gym.environments", {"crew-size-v1": "crew_sizes:CrewSizeEnv"})
    # What pip writes beside an installed module.
    info = folder / "crew_sizes-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: crew-sizes\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\ncrew-size-v1 = crew_sizes:CrewSizeEnv\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]
    assert module.name == "crew_sizes.py"


def test_nothing_is_overwritten_and_an_id_has_its_form(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="holds something already"):
        new_package(tmp_path, "crew-size-v1")
    with pytest.raises(BadInput, match="such as team-size-v0, got 'Crew size'"):
        new_package(tmp_path / "new", "Crew size")
