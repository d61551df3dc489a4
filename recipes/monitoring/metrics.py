"""What the cookbook's loops log in a run's folder, and the quantities in it that are worth watching."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tinker_cookbook.checkpoint_utils import CheckpointRecord
from tinker_cookbook.stores.storage import storage_from_uri
from tinker_cookbook.stores.training_store import TrainingRunStore

from ...evaluation.render.figures import as_float, mean_of, shown

METRICS = "metrics.jsonl"
BLOCKS = "▁▂▃▄▅▆▇█"
Row = Mapping[str, Any]


def run_store(folder: str | Path) -> TrainingRunStore:
    """The cookbook's reader and writer of a run's folder. It skips lines that are not whole JSON."""
    return TrainingRunStore(storage_from_uri(str(folder)))


class MetricsLog:
    """Rows of a run, one for each step, in order; a step that a resumed run repeats counts once, as last written.

    Each call of `rows` reads only what was added since the call before. A line that is still being written is left for
    the next call; one that a killed run left half written is skipped.
    """

    def __init__(self, folder: str | Path):
        self._store = run_store(folder)
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


def checkpoint_records(folder: str | Path) -> list[CheckpointRecord]:
    """Records of a run's `checkpoints.jsonl`, in the order in which they were written."""
    return run_store(folder).read_checkpoint_records()


def progress(rows: Sequence[Row]) -> tuple[int, int | None]:
    """(updates made, updates planned) by what the training loop logs; None where it does not log the plan.

    The RL loop logs ``progress/done_frac`` = (step + 1) / planned, the SFT loop ``progress`` = (step + 1) / planned,
    the DPO loop ``progress`` = step / planned. Rows of an evaluation after the last update have neither and do not
    count.

    Examples
    --------
    >>> progress([{"step": 0, "progress/done_frac": 0.25}, {"step": 1, "progress/done_frac": 0.5}, {"step": 2}])
    (2, 4)
    """
    for row in reversed(rows):
        step, share = int(row["step"]), row.get("progress/done_frac", row.get("progress"))
        if share is None:
            continue
        counted = step if "dpo_loss" in row else step + 1
        planned = as_float(counted) / share if 0 < share <= 1 else math.nan
        return step + 1, round(planned) if math.isfinite(planned) else None
    return 0, None


@dataclass(frozen=True)
class Measure:
    """A quantity of a training run: its key in `metrics.jsonl`, its title, which values are better (None where neither
    are, such as for entropy), and its range for pictures."""

    key: str
    title: str
    better: Literal["higher", "lower"] | None = None
    limits: tuple[float, float] | None = None

    @property
    def brief(self) -> str:
        """The title without what stands in brackets, other than a version."""
        return re.sub(r" \((?!v\d|DPO).*\)", "", self.title)


SHARE = (-0.02, 1.02)
# All measures that a run shows where it logs them, in this order.
REWARD = Measure("env/all/reward/total", "reward", "higher")
CORRECT = Measure("env/all/correct", "correct", "higher", SHARE)
VALIDATION = Measure("validation/macro_f1", "validation macro-F1", "higher", SHARE)
VALIDATION_MCC = Measure("validation/mcc", "validation MCC", "higher", (-1, 1))
VALIDATION_REWARD = Measure("validation/reward", "validation reward", "higher")
NLL = Measure("train_mean_nll", "loss (NLL, nats per token)", "lower")
DPO_LOSS = Measure("dpo_loss", "loss (DPO)", "lower")
DPO_ACCURACY = Measure("accuracy", "pairs ranked right", "higher", SHARE)
DPO_MARGIN = Measure("margin", "reward margin (DPO)", "higher")
HELD_OUT_NLL = Measure("held_out/nll", "held-out NLL", "lower")
SAMPLER_KL = Measure("optim/kl_sample_train_v2", "KL sampler-trainer (v2)")
SAMPLER_KL_V1 = Measure("optim/kl_sample_train_v1", "KL sampler-trainer (v1)")
REFERENCE_KL = Measure("kl_policy_base", "KL to the reference")
TEACHER_KL = Measure("teacher_kl", "KL to the teacher", "lower")
ENTROPY = Measure("optim/entropy", "entropy (nats per token)")
NO_SIGNAL = Measure("env/all/reward_uniform_group_rate", "groups without signal", None, SHARE)
ALL_FLOOR = Measure("env/all/reward_uniform_floor_rate", "groups all at the floor", None, SHARE)
ALL_BEST = Measure("env/all/reward_uniform_best_rate", "groups all at the best", None, SHARE)
GROUP_STD = Measure("env/all/reward_group_std", "standard deviation of rewards within groups")
AT_FLOOR = Measure("env/all/at_floor", "rollouts at the floor", "lower", SHARE)
NO_ANSWER = Measure("env/all/no_answer", "rollouts without an answer", "lower", SHARE)
WRONG_AT_FLOOR = Measure("env/all/at_floor_wrong", "wrong answers at the floor", "lower", SHARE)
CHALLENGER_FAILED = Measure("env/all/challenger_failed", "challengers that failed", "lower", SHARE)
JUDGE_FAILED = Measure("env/all/judge_failed", "judges that failed", "lower", SHARE)
TRUNCATED = Measure("env/all/truncated", "truncated rollouts", "lower", SHARE)
PARSED = Measure("env/all/format_valid", "answers that parse", "higher", SHARE)
GRADIENT = Measure("grad_norm:mean", "gradient norm")
SPEED = Measure("tokens_per_second", "tokens per second (RL: sampled, else: trained on)", "higher")
MEASURES = tuple(each for each in list(globals().values()) if isinstance(each, Measure))
TRUNCATED_THINKING = Measure("env/all/truncated_thinking", "rollouts truncated while thinking", "lower", SHARE)
VALIDATION_ANSWERED = Measure("validation/answered", "validation answers that parse", "higher", SHARE)
PREDICTED, EXPECTED = "env/all/predicted/", "env/all/expected/"
# The measures of an experiment record.
KEY_MEASURES = (REWARD, VALIDATION, VALIDATION_REWARD, NLL, DPO_LOSS, SAMPLER_KL, REFERENCE_KL, TEACHER_KL, ENTROPY)


@dataclass(frozen=True)
class Summary:
    """First, last, lowest, highest and best finite value of a measure, each with its step."""

    first: tuple[int, float]
    last: tuple[int, float]
    lowest: tuple[int, float]
    highest: tuple[int, float]
    best: tuple[int, float] | None


def values(rows: Sequence[Row], key: str) -> list[tuple[int, float]]:
    """(step, value) of the rows that have a number under `key`, NaN and infinities included."""
    pairs = ((row["step"], tokens_per_second(row) if key == SPEED.key else row.get(key)) for row in rows)
    return [
        (step, as_float(value))
        for step, value in pairs
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def finite(rows: Sequence[Row], key: str) -> list[tuple[int, float]]:
    """(step, value) of the rows that have a finite number under `key`."""
    return [(step, value) for step, value in values(rows, key) if math.isfinite(value)]


def point_text(point: tuple[int, float] | None) -> str:
    """A value with its step in brackets, for tables; empty for None."""
    return "" if point is None else f"{shown(point[1])} ({point[0]})"


def summary(rows: Sequence[Row], measure: Measure) -> Summary | None:
    """`Summary` of a measure; None for a run that does not log it. Of equal best values the earliest."""
    points = finite(rows, measure.key)
    if not points:
        return None
    lowest = min(points, key=lambda point: point[1])
    highest = max(points, key=lambda point: point[1])
    best = {"higher": highest, "lower": lowest, None: None}[measure.better]
    return Summary(points[0], points[-1], lowest, highest, best)


def labels_of(rows: Sequence[Row]) -> list[str]:
    """Labels whose shares among the predictions the run logs."""
    names = {key for row in rows for key in row if key.startswith(PREDICTED)}
    return sorted(name.removeprefix(PREDICTED) for name in names if finite(rows, name))


def tokens_per_second(row: Row) -> float | None:
    """Tokens that a step trained on (SFT, DPO) or sampled (RL), divided by the wall time of the step.

    RL and DPO log ``time/total``. The SFT loop overlaps two batches and logs no total; there it is the time spent on
    getting, sending and finishing the batch. Prompt tokens of RL, which are read and not sampled, do not count.
    """
    tokens = row.get("env/all/total_ac_tokens", row.get("num_tokens"))
    seconds: Any = row.get("time/total")
    if seconds is None and "time/finish_batch" in row:
        seconds = sum(row.get(f"time/{part}", 0.0) for part in ("get_batch", "submit_batch", "finish_batch"))
    return as_float(tokens) / as_float(seconds) if tokens and seconds else None


def sparkline(numbers: Sequence[float], width: int = 32) -> str:
    """A curve in one line of text: blocks of eight heights, from the lowest to the highest value.

    There are at most `width` blocks: of more numbers, each block is the mean of its share. Values that are not finite
    are left out of means; a block that has no other value is "!".

    Examples
    --------
    >>> sparkline([0, 1, 2, 3, 4, 5, 6, 7])
    '▁▂▃▄▅▆▇█'
    >>> sparkline([1.0, 1.0]), sparkline([0.0, float("nan"), 1.0])
    ('▁▁', '▁!█')
    """
    # In units of the largest value: sums and differences of values near the largest float would overflow.
    numbers = [as_float(number) for number in numbers]
    unit = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0) or 1.0
    count = min(width, len(numbers))
    edges = [i * len(numbers) // count for i in range(count)] + [len(numbers)] if count else []
    means = [
        mean_of([number / unit for number in numbers[start:end] if math.isfinite(number)])
        for start, end in pairwise(edges)
    ]
    heights = [mean for mean in means if math.isfinite(mean)]
    low = min(heights, default=0.0)
    span = max(heights, default=0.0) - low or 1.0
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round((mean - low) / span * top)] if math.isfinite(mean) else "!" for mean in means)
