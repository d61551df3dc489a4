"""The `scisci-gym` command."""

import typer

from .datasets.build_cli import app as build_app
from .datasets.data_cli import app as data_app
from .datasets.labels_cli import labels
from .engine.cli import serve
from .envs import cli as environments
from .recipes import cli as recipes
from .recipes import comparisons_cli as comparisons
from .recipes.monitoring import cli as monitoring

app = typer.Typer(no_args_is_help=True, pretty_exceptions_show_locals=False)

app.add_typer(build_app, name="build", rich_help_panel="Data")
app.add_typer(data_app, name="data", rich_help_panel="Data")
app.command(rich_help_panel="Data")(labels)

app.command("list", rich_help_panel="Environments")(environments.list_environments)
app.command(rich_help_panel="Environments")(environments.show)
app.command(rich_help_panel="Environments")(environments.play)
app.command(rich_help_panel="Environments")(environments.check)

RECIPE_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(rich_help_panel="Training", context_settings=RECIPE_ARGUMENTS)(recipes.train)
app.command(rich_help_panel="Training", context_settings=RECIPE_ARGUMENTS)(comparisons.sweep)
app.command(rich_help_panel="Training", context_settings=RECIPE_ARGUMENTS)(comparisons.study)
app.command("eval", rich_help_panel="Training")(recipes.evaluate)
app.command(rich_help_panel="Training")(recipes.demo)
app.command(rich_help_panel="Training")(monitoring.watch)
app.command(rich_help_panel="Training")(monitoring.report)

engine = typer.Typer(
    no_args_is_help=True, help="A Tinker-compatible engine on this machine, and tiny models to run on it."
)
engine.command()(serve)
engine.command("init-model")(recipes.init_model)
app.add_typer(engine, name="engine", rich_help_panel="Training")


@app.callback()
def _about() -> None:
    """Reinforcement-learning environments that ask a language model to judge science."""


def main() -> None:
    """Entry point of the console script."""
    app()
