"""What a run cost in tokens, whatever recipe it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...monitoring.metrics import finite, read_metrics
from ...monitoring.record import read_run_record


@dataclass(frozen=True)
class Cost:
    """Tokens and time of one run, from its own metrics.

    Parameters
    ----------
    trained : int
        Tokens that went through forward and backward passes, prompts included.
    sampled : int
        Tokens that were generated for training. Evaluations are not counted, neither here nor there.
    read : int
        Prompt tokens read while sampling.
    seconds : float
        From start to end, with validation.
    """

    trained: int
    sampled: int
    read: int
    seconds: float


def cost_of(folder: Path) -> Cost:
    """Cost of the run in `folder`."""
    rows = read_metrics(folder)
    sampled, read = _total(rows, "env/all/total_ac_tokens"), _total(rows, "env/all/total_ob_tokens")
    supervised = _total(rows, "num_tokens")
    # RL trains on what was read and sampled; groups without signal go through the passes all the same.
    return Cost(supervised or sampled + read, sampled, read, float(read_run_record(folder).get("seconds", 0.0)))


def _total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    return int(sum(value for _, value in finite(rows, name)))
