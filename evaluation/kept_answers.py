"""What an interrupted evaluation leaves behind: the answers that are worth keeping."""

from __future__ import annotations

from pathlib import Path

from ..datasets.atomic_files import drop_torn_lines


def keep_whole_answers(save_dir: Path, benchmark: str) -> int:
    """Drop what the cookbook's runner would stumble over when it resumes; the number of lines that were dropped.

    A line that a kill cut short would swallow the next answer, which is appended to it. And an example that failed for
    a technical reason counts as done, so that it would never be asked again.
    """
    path = Path(save_dir) / benchmark / "trajectories.jsonl"
    return drop_torn_lines(path, lambda answer: answer.get("error") is None)
