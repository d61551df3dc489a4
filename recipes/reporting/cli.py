"""`scisci-gym watch` and `scisci-gym report` on the command line."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from ...datasets.errors import stop_on_bad_input

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run (its log_path).")]


def watch(
    run: Run,
    once: Annotated[
        bool, typer.Option("--once", help="Print the state once; the exit status is 1 if an alarm is on.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the state once as JSON, with the exit status of --once.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates of the screen.")] = 2.0,
    stale_after: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a heartbeat after which a run counts as killed.")
    ] = 60.0,
) -> None:
    """Watch a run: reward, KL, entropy, groups without signal, truncations, speed and alarms.

    The run may be of any recipe, in progress, finished or killed. Alarms are raised for NaN, KL spikes, collapse of
    entropy or of labels, saturated groups, truncations, unparsable answers, a rising loss, and a killed or failed
    process. Training also writes to Weights & Biases if it is started with wandb_project=NAME (and wandb_name=, with
    WANDB_API_KEY in the environment), as in the cookbook.
    """
    from rich.console import Console
    from rich.live import Live

    from ..monitoring.record import RunFolder
    from ..monitoring.watch import screen, snapshot

    console = Console(highlight=False)
    folder = stop_on_bad_input(lambda: RunFolder(run))
    state = folder.state(stale_after)
    if as_json:
        typer.echo(json.dumps(snapshot(state), indent=2))
    elif once or not console.is_terminal:
        console.print(screen(state, console.width))
    else:
        with (
            Live(screen(state, console.width), console=console, auto_refresh=False) as live,
            contextlib.suppress(KeyboardInterrupt),
        ):
            while state.status in ("running", "unknown"):
                time.sleep(every)
                state = folder.state(stale_after)
                live.update(screen(state, console.width), refresh=True)
    raise typer.Exit(1 if state.alarms else 0)


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of training runs (their log_path).")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    episodes: Annotated[int, typer.Option(min=0, help="Largest number of episodes to show of every run.")] = 48,
) -> None:
    """Write an HTML page about one or several runs: curves, scores, options that differ, transcripts, alarms.

    The page is one file that loads nothing from elsewhere.
    """
    from .run_report import write_run_report

    typer.echo(f"written to {stop_on_bad_input(lambda: write_run_report(runs, out, episodes))}")
