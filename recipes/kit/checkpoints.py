"""Checkpoints by the folder of the run that wrote them, so that nobody has to copy a `tinker://` path."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinker_cookbook.checkpoint_utils import CheckpointRecord
from tinker_cookbook.stores.storage import storage_from_uri
from tinker_cookbook.stores.training_store import TrainingRunStore

from ...datasets.atomic_files import write_text_atomically
from ..monitoring.metrics import read_metrics

CHECKPOINTS = "checkpoints.jsonl"
# The loops of SFT and DPO number batches within an epoch; a row with one of these is one update.
UPDATE_METRICS = ("train_mean_nll", "dpo_loss")
# What the SFT loop's checkpoint k holds: it is asked for after update k was sent, while its record says "batch k".
SFT_METRIC = "train_mean_nll"
RL_METRIC = "progress/batch"


@dataclass(frozen=True)
class Checkpoint:
    """Weights that a run kept.

    Parameters
    ----------
    name : str
        As in the cookbook's `checkpoints.jsonl`.
    step : int
        Updates that these weights have had.
    state_path, sampler_path : str or None
        ``tinker://...``, for training on and for sampling.
    """

    name: str
    step: int
    state_path: str | None
    sampler_path: str | None


def checkpoints(log_path: str | Path) -> list[Checkpoint]:
    """The checkpoints of a run, oldest first, each step once."""
    updates = _updates(log_path)
    shift = int(any(SFT_METRIC in row for row in read_metrics(log_path)))
    found: dict[int, Checkpoint] = {}
    for record in _records(log_path):
        if record.final or record.name == "final":
            step = updates if updates is not None else int(record.batch or 0)
        else:
            step = (int(record.name) if record.name.isdigit() else int(record.batch or 0)) + shift
        found[step] = Checkpoint(record.name, step, record.state_path, record.sampler_path)
    return [found[step] for step in sorted(found)]


def _updates(log_path: str | Path) -> int | None:
    steps = [int(row["step"]) for row in read_metrics(log_path) if any(name in row for name in UPDATE_METRICS)]
    return max(steps) + 1 if steps else None


def best_checkpoint(log_path: str | Path) -> tuple[Checkpoint, float]:
    """The checkpoint with the best validation macro-F1, and that score; of equal ones the earliest.

    Raises
    ------
    FileNotFoundError
        If the run has no checkpoint that was validated.
    """
    rows = [row for row in read_metrics(log_path) if "validation/macro_f1" in row]
    validated = {int(row["step"]): float(row["validation/macro_f1"]) for row in rows}
    found = [
        (validated[checkpoint.step], checkpoint)
        for checkpoint in checkpoints(log_path)
        if checkpoint.sampler_path and checkpoint.step in validated
    ]
    if not found:
        raise FileNotFoundError(
            f"{log_path} has no checkpoint with a validation score; train with eval_every equal to save_every"
        )
    value, checkpoint = max(found, key=lambda pair: (pair[0], -pair[1].step))
    return checkpoint, value


def last_checkpoint(log_path: str | Path, kind: str = "state_path") -> str:
    """``state_path`` or ``sampler_path`` of the last checkpoint of a run.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run, or the run has no such checkpoint.
    """
    found = [str(record.get(kind)) for record in _records(log_path) if record.has(kind)]
    if not found:
        raise FileNotFoundError(f"{log_path} has no checkpoint with a {kind}; give the log_path of a finished run")
    return found[-1]


def _records(log_path: str | Path) -> list[CheckpointRecord]:
    """Records of `checkpoints.jsonl`. Unlike `checkpoint_utils.load_checkpoints_file`, the cookbook's store passes over
    a line that is not whole: of a run that was killed, or that writes it at this moment.
    """
    return TrainingRunStore(storage_from_uri(str(log_path))).read_checkpoint_records()


def chosen_checkpoint(log_path: str | Path) -> Checkpoint:
    """The best checkpoint on validation, or the last one of a run without validation.

    Raises
    ------
    FileNotFoundError
        If the run has no checkpoint to sample from.
    """
    try:
        return best_checkpoint(log_path)[0]
    except FileNotFoundError:
        found = [checkpoint for checkpoint in checkpoints(log_path) if checkpoint.sampler_path]
        if not found:
            raise FileNotFoundError(f"{log_path} has no checkpoint to sample from; give a finished run") from None
        return found[-1]


def state_path(start: str | None) -> str | None:
    """Where training starts from: a ``tinker://`` path as it is, or the chosen checkpoint of the run in a folder.

    Raises
    ------
    FileNotFoundError
        If the folder holds no run with a state to train on from.
    """
    if start is None or "://" in start:
        return start
    chosen = chosen_checkpoint(start)
    return chosen.state_path or last_checkpoint(start)


def settle_sft_resume(log_path: str | Path, batches: int) -> None:
    """Make an interrupted SFT run go on where its last checkpoint stands, before the loop reads the records.

    The cookbook's SFT loop (0.5.8 and 0.6.1, nothing sent ahead) saves checkpoint k after update k and writes "batch k"
    beside it, so a resumed run would repeat batch k on weights that have seen it. Here the record is moved on by one
    batch. See `settle_rl_resume` for what is left out.

    Parameters
    ----------
    batches : int
        Batches of an epoch.
    """

    def settled(record: CheckpointRecord, logged: set[int]) -> dict | None:
        if record.extra.get("settled"):
            return record.to_dict()
        return _moved_on(record, batches) if int(record.name) in logged else None

    _rewrite(log_path, SFT_METRIC, settled)


def settle_rl_resume(log_path: str | Path) -> None:
    """Leave out a checkpoint whose last step was not logged before the run died: the run goes on from the checkpoint
    before it and repeats that step, so that its metrics lack none. For the loops of RL and distillation."""

    def settled(record: CheckpointRecord, logged: set[int]) -> dict | None:
        return record.to_dict() if not record.batch or record.batch - 1 in logged else None

    _rewrite(log_path, RL_METRIC, settled)


def _rewrite(log_path: str | Path, metric: str, settled: Callable[[CheckpointRecord, set[int]], dict | None]) -> None:
    path = Path(log_path) / CHECKPOINTS
    if not path.is_file():
        return
    logged = {int(row["step"]) for row in read_metrics(log_path) if metric in row}
    records = _records(log_path)
    is_final = [bool(record.final) or not record.name.isdigit() for record in records]
    kept = [r.to_dict() if final else settled(r, logged) for r, final in zip(records, is_final, strict=True)]
    write_text_atomically(path, "".join(json.dumps(record) + "\n" for record in kept if record is not None))


def _moved_on(record: CheckpointRecord, batches: int) -> dict:
    epoch, batch = divmod(int(record.name) + 1, batches)
    return {**record.to_dict(), "epoch": epoch, "batch": batch, "settled": True}
