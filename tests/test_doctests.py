"""Every example in every docstring of the package runs."""

import doctest
import importlib.util
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("datasets", "rewards", "envs", "evaluation", "recipes", "engine")
FILES = sorted(path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*.py"))
WITH_EXAMPLES = [path for path in FILES if ">>> " in (ROOT / path).read_text(encoding="utf-8")]
NEEDS = {"evaluation/inspect_tasks.py": "inspect_ai", "envs/integrations/verifiers.py": "verifiers"}


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples(path: Path) -> None:
    needed = NEEDS.get(str(path))
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{path} needs {needed}")
    result = doctest.testmod(import_module(".".join(["scisci_gym", *path.with_suffix("").parts])))
    assert result.attempted > 0
    assert result.failed == 0
