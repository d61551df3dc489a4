"""`scisci-gym watch`, `report` and `engine export`: what is done with the folder of a run."""

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
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of training runs (their log_path).")],
    out: Annotated[Path, typer.Option(help="File to write.")] = Path("report.html"),
    episodes: Annotated[int, typer.Option(min=0, help="Largest number of episodes to show of every run.")] = 48,
) -> None:
    """Write an HTML page about one or several runs: curves, scores, options that differ, transcripts, alarms.

    The page is one file that loads nothing from elsewhere.
    """
    from ..reporting.run_report import write_run_report

    typer.echo(f"written to {stop_on_bad_input(lambda: write_run_report(runs, out, episodes))}")


def export(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="A tinker:// path, or the log_path of a run: its best checkpoint."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write; must not exist.")],
    merged: Annotated[
        bool, typer.Option("--merged", help="Write a whole model for transformers, not an adapter.")
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(help="Type of merged weights: float32, bfloat16 or float16; default: the base model's."),
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option(help="Checkpoint folder of the local engine; default: that of the run.")
    ] = None,
    push_to_hub: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="Upload the folder too; the token comes from HF_TOKEN.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="Make a new hub repository public.")] = False,
) -> None:
    """Write a checkpoint of the local engine as a peft adapter or, with --merged, as a model for transformers."""
    from ...engine.compute import export as exporting
    from ...engine.compute.checkpoints import CheckpointStore
    from ...engine.errors import RequestError

    def act() -> None:
        path, root = locate(checkpoint, checkpoints)
        if dtype is not None and not merged:
            raise ValueError("dtype is for merged weights; an adapter is float32 (add --merged)")
        store = CheckpointStore(root, read_only=True)
        try:
            if merged:
                exporting.export_merged(store, path, out, dtype)
            else:
                exporting.export_adapter(store, path, out)
            typer.echo(f"{path} written to {out}")
            if push_to_hub is not None:
                typer.echo(exporting.push_to_hub(out, push_to_hub, private=not public))
        except RequestError as error:
            raise ValueError(f"{error}; what hosted Tinker keeps is fetched with tinker_cookbook.weights") from error
        except (FileExistsError, PermissionError) as error:
            raise ValueError(str(error)) from error

    stop_on_bad_input(act)


def locate(checkpoint: str, checkpoints: Path | None) -> tuple[str, Path]:
    """The ``tinker://`` path of a checkpoint or a run, and the folder that it is in.

    Raises
    ------
    FileNotFoundError
        If a folder is not that of a run, or the run has no checkpoint to sample from.
    """
    from ..kit.checkpoints import chosen_checkpoint
    from ..monitoring.record import read_run_record, require_folders

    if "://" in checkpoint:
        return checkpoint, checkpoints or Path("runs/checkpoints")
    config = read_run_record(checkpoint)["config"]
    if checkpoints is None:
        require_folders(checkpoint, ["checkpoints"])
    path = chosen_checkpoint(checkpoint).sampler_path
    assert path is not None, "chosen_checkpoint returns one that can be sampled from"
    return path, checkpoints or Path(config["checkpoints"])
