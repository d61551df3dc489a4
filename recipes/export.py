"""`scisci-gym engine export`: checkpoints as adapters or models for use without this project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..datasets.errors import stop_on_bad_input
from .kit.checkpoints import chosen_checkpoint
from .monitoring.record import read_run_record, require_folders


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
    from ..engine.compute import export as exporting
    from ..engine.compute.checkpoints import CheckpointStore
    from ..engine.errors import RequestError

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
    if "://" in checkpoint:
        return checkpoint, checkpoints or Path("runs/checkpoints")
    config = read_run_record(checkpoint)["config"]
    if checkpoints is None:
        require_folders(checkpoint, ["checkpoints"])
    path = chosen_checkpoint(checkpoint).sampler_path
    assert path is not None, "chosen_checkpoint returns one that can be sampled from"
    return path, checkpoints or Path(config["checkpoints"])
