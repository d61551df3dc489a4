"""The notebooks of `docs/notebooks` run from top to bottom and show what is stored in them.

`python tests/test_notebooks.py` runs them and stores what they show now.
"""

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def shown(cells: list[dict[str, Any]], folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of the code cells, run one after the other in `folder` without a kernel: prints and last values."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        return [_outputs("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    finally:
        os.chdir(before)


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None  # pyright: ignore[reportAttributeAccessIssue]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), source, "exec"), names)
        value = None if last is None else eval(compile(last, source, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        result = {"data": {"text/plain": _lines(repr(value))}, "execution_count": None, "metadata": {}}
        outputs.append({**result, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_runs_and_shows_what_is_stored(path: Path, tmp_path: Path) -> None:
    cells = json.loads(path.read_text())["cells"]
    stored = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert sum(map(len, stored)) > 3
    assert shown(cells, tmp_path) == stored


def test_there_is_one() -> None:
    assert NOTEBOOKS


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        content = json.loads(notebook.read_text())
        with tempfile.TemporaryDirectory() as scratch:
            results = iter(shown(content["cells"], Path(scratch)))
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = next(results)
        notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
