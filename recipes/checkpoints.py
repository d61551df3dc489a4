"""Checkpoints by the folder of the run that wrote them, so that nobody has to copy a `tinker://` path."""

from __future__ import annotations

from pathlib import Path

from tinker_cookbook import checkpoint_utils


def last_checkpoint(log_path: str | Path, kind: str = "state_path") -> str:
    """``state_path`` or ``sampler_path`` of the last checkpoint of a run.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run, or the run has no such checkpoint.
    """
    record = checkpoint_utils.get_last_checkpoint(str(log_path), required_key=kind)
    if record is None:
        raise FileNotFoundError(f"{log_path} has no checkpoint with a {kind}; give the log_path of a finished run")
    return str(record.get(kind))


def state_path(start: str | None) -> str | None:
    """Where training starts from: a ``tinker://`` path as it is, or the last state of the run in a folder."""
    if start is None or "://" in start:
        return start
    return last_checkpoint(start)
