"""The `scisci-gym` command."""

import typer

app = typer.Typer(no_args_is_help=True)


def main() -> None:
    """Entry point of the console script."""
    app()
