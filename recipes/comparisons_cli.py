"""`scisci-gym sweep` and `scisci-gym study`: many runs, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..datasets.build_cli import stop_on_bad_input
from .cli import Engine, Recipe


def sweep(
    context: typer.Context,
    recipe: Annotated[Recipe, typer.Option(help="Which recipe to run.")] = Recipe.rl,
    like: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Take options that are not given from this run; default: the demo's, if it is there."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/sweep"),
    engine: Engine = None,
) -> None:
    """Run a recipe over a grid of options: group_size=4,8,16 learning_rate=1e-3,2e-3 seed=0,1,2.

    Any option of the recipe can vary; alternatives of env_options are separated by semicolons. Runs that are done are
    not run again. Prints tie metrics, mean reward, correct rate and throughput side by side and writes sweep.json and
    sweep.md. With several seeds a row shows mean and standard deviation.
    """
    from .sweep import Sweep, alternatives, base_options, sweep_table

    def act() -> None:
        console = Console(highlight=False)
        options = alternatives(context.args)
        base = base_options(like, str(recipe), console.print)
        for needed in ("dataset", "model_name"):
            if needed not in options and needed not in base:
                raise ValueError(f"a sweep needs {needed}=..., or an earlier run to go by: --like RUN")
        if engine is not None:
            base["engine"] = engine
        planned = Sweep(str(recipe), options, out, base)
        runs = planned.run(console)
        console.print()
        console.print(sweep_table(runs, planned.varied, console))
        console.print(f"\nwritten to {out / 'sweep.md'} and {out / 'sweep.json'}")

    stop_on_bad_input(act)
