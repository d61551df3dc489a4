"""What an interrupted evaluation leaves behind: the answers that are worth keeping."""

from __future__ import annotations

import json
import os
from pathlib import Path


def keep_whole_answers(save_dir: Path, benchmark: str) -> int:
    """Drop what the cookbook's runner would stumble over when it resumes; the number of lines that were dropped.

    A line that a kill cut short would swallow the next answer, which is appended to it. And an example that failed for
    a technical reason counts as done, so that it would never be asked again.
    """
    path = Path(save_dir) / benchmark / "trajectories.jsonl"
    if not path.is_file():
        return 0
    lines = path.read_bytes().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n") and _is_answer(line)]
    if len(whole) < len(lines):
        new = path.with_suffix(".new")
        new.write_bytes(b"".join(whole))
        os.replace(new, path)
    return len(lines) - len(whole)


def _is_answer(line: bytes) -> bool:
    try:
        return json.loads(line).get("error") is None
    except ValueError:
        return False
