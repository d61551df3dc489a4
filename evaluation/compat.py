"""What evaluation uses of the cookbook beyond its documented interface: the file in which its runner keeps answers."""

from pathlib import Path

from ..datasets.atomic_files import drop_torn_lines


def keep_whole_answers(save_dir: Path, benchmark: str) -> int:
    """Remove stored answers that the cookbook's runner cannot resume from; returns how many lines were removed.

    A line that a kill cut short would swallow the next answer, which is appended to it. An example that failed for a
    technical reason would count as done and never be asked again.
    """
    path = Path(save_dir) / benchmark / "trajectories.jsonl"
    return drop_torn_lines(path, lambda answer: answer.get("error") is None)
