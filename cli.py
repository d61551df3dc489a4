"""The `scisci-gym` command."""

import typer

from .datasets.build_cli import app as build_app
from .engine.cli import app as engine_app
from .recipes import cli as recipes

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)
app.add_typer(build_app, name="build")
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(recipes.train)
app.command(name="eval")(recipes.evaluate)
app.command()(recipes.demo)
app.add_typer(engine_app, name="engine")


@app.callback()
def _about() -> None:
    """Reinforcement-learning environments that ask a language model to judge science."""


def main() -> None:
    """Entry point of the console script."""
    app()
