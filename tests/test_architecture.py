"""`docs/architecture.md` and the README's list of rooms are true; who may import whom is checked by `make lint`."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("datasets", "rewards", "envs", "evaluation", "recipes", "engine")


def paths_in(page: str) -> list[str]:
    """Everything between backticks or in a link that has the form of a file or folder of the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    names = re.findall(r"`([^`\s]+)`", text) + re.findall(r"\]\(([^)#:\s]+)\)", text)
    starts = tuple(f"{room}/" for room in ROOMS)
    return sorted({name for name in names if name.startswith(starts) or name.endswith(".py")})


def test_every_path_that_the_page_names_exists() -> None:
    named = paths_in("docs/architecture.md")
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "README.md"])
def test_every_room_is_on_the_page(page: str) -> None:
    assert {f"{room}/" for room in ROOMS} <= {f"{path.split('/')[0]}/" for path in paths_in(page)}
    assert "docs/architecture.md" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_folder_of_a_room_is_on_the_page() -> None:
    folders = {f"{path.parent.relative_to(ROOT)}/" for room in ROOMS for path in (ROOT / room).glob("*/*.py")}
    assert folders - set(paths_in("docs/architecture.md")) == set()
