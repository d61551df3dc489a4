"""`scisci-gym data`: checks of a dataset that has been built."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ..errors import stop_on_bad_input
from ..verify import verify as run_checks

app = typer.Typer(help="Check a built dataset.", no_args_is_help=True)
SHOWN = 5


@app.callback()
def _about() -> None:
    """Check a built dataset."""


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `scisci-gym build` wrote.")],
    sample: Annotated[int, typer.Option(help="Papers whose counts are computed again by the definition.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed with which those papers are drawn.")] = 0,
) -> None:
    """Compute hash, counts and labels again; print what differs, and exit with status 1 if anything does."""
    checks = stop_on_bad_input(lambda: run_checks(folder, sample=sample, seed=seed))
    console = Console(soft_wrap=True, highlight=False)
    for check in checks:
        mark = "[green]holds[/green]" if check.holds else "[red]fails[/red]"
        console.print(f"{mark}  {check.name} [dim]({escape(check.looked_at)})[/dim]")
        for line in check.wrong[:SHOWN]:
            console.print(f"         {escape(line)}")
        if len(check.wrong) > SHOWN:
            console.print(f"         ... and {len(check.wrong) - SHOWN:,} more")
    if not all(check.holds for check in checks):
        raise typer.Exit(1)
