"""The `scisci-gym` command."""

import typer

from .datasets.build_cli import app as build_app

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False, help=__doc__)
app.add_typer(build_app, name="build")


@app.callback()
def _about() -> None:
    """Reinforcement-learning environments that ask a language model to judge science."""


def main() -> None:
    """Entry point of the console script."""
    app()
