"""A run's `metrics.jsonl`, read as it grows, and how far it says the run has come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tinker_cookbook.stores.storage import storage_from_uri
from tinker_cookbook.stores.training_store import TrainingRunStore

from ...evaluation.render.figures import as_float

METRICS = "metrics.jsonl"
Row = Mapping[str, Any]


class MetricsLog:
    """Rows of a run, one for each step, in order; a resumed run's repeated steps count once, as last written.

    Reading is incremental: a call of `rows` parses only what was added since the one before. A line that is still being
    written is left for the next call; one that a killed run left half written is passed over.
    """

    def __init__(self, folder: str | Path):
        self._store = TrainingRunStore(storage_from_uri(str(folder)))
        self._by_step: dict[int, dict[str, Any]] = {}

    def rows(self) -> list[dict[str, Any]]:
        """All rows so far. Keys are the cookbook's; `step` counts updates from 0."""
        for row in self._store.read_new_metrics():
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                self._by_step.setdefault(row["step"], {}).update(row)
        return [self._by_step[step] for step in sorted(self._by_step)]


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """Rows of a run's `metrics.jsonl` as `MetricsLog` reads them, once."""
    return MetricsLog(folder).rows()


def progress(rows: Sequence[Row]) -> tuple[int, int | None]:
    """(updates made, updates planned) by what the training loop logs; None where it does not say.

    The RL loop logs ``progress/done_frac`` = (step + 1) / planned, the SFT loop ``progress`` = (step + 1) / planned,
    the DPO loop ``progress`` = step / planned. Rows of an evaluation after the last update have neither and do not
    count.

    Examples
    --------
    >>> progress([{"step": 0, "progress/done_frac": 0.25}, {"step": 1, "progress/done_frac": 0.5}, {"step": 2}])
    (2, 4)
    """
    for row in reversed(rows):
        done, share = int(row["step"]), row.get("progress/done_frac", row.get("progress"))
        if share is None:
            continue
        ahead = done if "dpo_loss" in row else done + 1
        planned = as_float(ahead) / share if 0 < share <= 1 else math.nan
        return done + 1, round(planned) if math.isfinite(planned) else None
    return 0, None
