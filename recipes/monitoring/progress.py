"""One progress bar for a training run, in place of the cookbook's log tables, which go to a file."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .metrics import MetricsLog, finite

# The metrics beside the bar.
SHOWN = (("env/all/reward/total", "reward"), ("validation/macro_f1", "validation macro-F1"), ("train_mean_nll", "loss"))


@contextlib.contextmanager
def training_progress(label: str, log_path: str | Path, steps: int, console: Console) -> Iterator[None]:
    """While the block trains for so many steps, send what it prints to `console.log` in the run's folder, and draw a
    bar from its `metrics.jsonl` on `console`, which is not the standard output."""
    folder = Path(log_path)
    folder.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    handlers = list(logging.getLogger().handlers)
    stop = threading.Event()
    with (
        (folder / "console.log").open("a") as log,
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        task, metrics = bar.add_task(label, total=steps), MetricsLog(folder)

        def follow() -> None:
            while not stop.wait(0.5):
                rows = metrics.rows()
                latest = [f"{name} {points[-1][1]:.2f}" for key, name in SHOWN if (points := finite(rows, key))]
                bar.update(task, completed=len(rows), description="  ".join(filter(None, [label, ", ".join(latest)])))

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                yield
        finally:
            stop.set()
            follower.join()
            # The cookbook replaced the root handlers by ones that write to the redirected streams.
            logging.getLogger().handlers[:] = handlers
