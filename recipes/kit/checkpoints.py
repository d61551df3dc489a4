"""Checkpoints by the folder of the run that wrote them, so that nobody has to copy a `tinker://` path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..monitoring.metrics import checkpoint_records, read_metrics
from ..monitoring.record import read_state
from ..monitoring.summary import validation_measure

# The loops of SFT and DPO number batches within an epoch; a row with one of these metrics is one update.
UPDATE_METRICS = ("train_mean_nll", "dpo_loss")


@dataclass(frozen=True)
class Checkpoint:
    """Weights that a run kept: their name in the cookbook's `checkpoints.jsonl`, the number of updates that they have
    had, and the ``tinker://`` paths of the state to train on from and of the weights to sample from."""

    name: str
    step: int
    state_path: str | None
    sampler_path: str | None


def checkpoints(log_path: str | Path) -> list[Checkpoint]:
    """The checkpoints of a run, oldest first; of several at the same step the last one."""
    rows = read_metrics(log_path)
    updates = [int(row["step"]) + 1 for row in rows if any(name in row for name in UPDATE_METRICS)]
    # The SFT loop saves checkpoint k after update k, the others before it.
    shift = int(any("train_mean_nll" in row for row in rows))
    by_step: dict[int, Checkpoint] = {}
    for record in checkpoint_records(log_path):
        step = int(record.batch or 0)
        if record.final or record.name == "final":
            step = max(updates, default=step)
        else:
            step = (int(record.name) if record.name.isdigit() else step) + shift
        by_step[step] = Checkpoint(record.name, step, record.state_path, record.sampler_path)
    return [by_step[step] for step in sorted(by_step)]


def best_checkpoint(log_path: str | Path, by: str | None = None) -> tuple[Checkpoint, float]:
    """The checkpoint with the best validation score, and that score: `validation_measure` of the run, or the metric
    that `by` names.

    Of equal ones it is the earliest. Raises `FileNotFoundError` if the run has no checkpoint that was validated.
    """
    state = read_state(log_path)
    by = by or validation_measure(state.config.get("env"), state.config.get("choose_by")).key
    scores = {int(row["step"]): float(row[by]) for row in state.rows if by in row}
    validated = [point for point in checkpoints(log_path) if point.sampler_path and point.step in scores]
    if not validated:
        raise FileNotFoundError(
            f"{log_path} has no checkpoint with a validation score; train with eval_every equal to save_every"
        )
    best = max(validated, key=lambda point: (scores[point.step], -point.step))
    return best, scores[best.step]


def last_checkpoint(log_path: str | Path, kind: str = "state_path") -> str:
    """``state_path`` or ``sampler_path`` of the last checkpoint of a run; a `FileNotFoundError` if it has none."""
    for record in reversed(checkpoint_records(log_path)):
        if record.has(kind):
            return str(record.get(kind))
    raise FileNotFoundError(f"{log_path} has no checkpoint with a {kind}; give the log_path of a finished run")


def chosen_checkpoint(log_path: str | Path) -> Checkpoint:
    """The best checkpoint on validation, or the last one of a run without validation.

    Raises `FileNotFoundError` if the run has no checkpoint to sample from.
    """
    try:
        return best_checkpoint(log_path)[0]
    except FileNotFoundError:
        usable = [point for point in checkpoints(log_path) if point.sampler_path]
        if not usable:
            raise FileNotFoundError(f"{log_path} has no checkpoint to sample from; give a finished run") from None
        return usable[-1]


def state_path(start: str | None) -> str | None:
    """Where training starts from: a ``tinker://`` path unchanged, or the chosen checkpoint of the run in a folder.

    Raises `FileNotFoundError` if the folder holds no run with a state to train on from.
    """
    if start is None or "://" in start:
        return start
    return chosen_checkpoint(start).state_path or last_checkpoint(start)
