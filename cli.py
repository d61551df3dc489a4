"""The `scisci-gym` command. What a command needs is imported when it is called, so that `--help` is quick."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

# Typer has no public name for it: the error of a command line that cannot be parsed.
UsageError: Any = typer.BadParameter.__mro__[1]


@contextmanager
def one_line_for_usage_errors() -> Iterator[None]:
    """Print what is wrong with a command line, and which help to read, on one line, and exit with status 2."""
    try:
        yield
    except UsageError as error:
        # A command that is called without arguments prints its help.
        if type(error).__name__ == "NoArgsIsHelpError":
            raise
        command = error.ctx.command_path if error.ctx else "scisci-gym"
        message = error.format_message()
        stop = "" if message.endswith((".", "?")) else "."
        typer.echo(f"error: {message}{stop} See `{command} --help`.", err=True)
        raise typer.Exit(2) from error


@dataclass(frozen=True)
class LazyCommand:
    """A command that is not imported yet."""

    target: str
    """``module:attribute`` inside this package: a function, or a `typer.Typer` with commands of its own."""
    about: str
    """Its line in the list of commands. The command's own help begins with the same words."""
    panel: str | None = None
    """Heading in that list."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Context settings, such as ``{"allow_extra_args": True}``."""

    def load(self, name: str) -> Any:
        """Import the command, for the command-line parser."""
        module, attribute = self.target.split(":")
        command = getattr(import_module(f".{module}", __package__), attribute)
        if isinstance(command, typer.Typer):
            group = typer.main.get_group(command)
            group.name = name
            return _with_wrapped_help(group)
        app = typer.Typer(add_completion=False)
        app.command(name, context_settings=dict(self.settings) or None)(command)
        return _with_wrapped_help(typer.main.get_command(app))


def _with_wrapped_help(command: Any) -> Any:
    """The command, and those below it, with every paragraph of the help on one line.

    Typer keeps the line ends of a docstring from its second paragraph on, so that they would stand among those that the
    terminal's width makes.
    """
    if command.help:
        paragraphs = inspect.cleandoc(command.help).split("\n\n")
        command.help = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)
    for each in getattr(command, "commands", {}).values():
        _with_wrapped_help(each)
    return command


def lazy_group(commands: Mapping[str, LazyCommand], **options: Any) -> typer.Typer:
    """A `typer.Typer` that lists `commands` in order and imports the one that is called; it takes Typer's options."""

    class Group(TyperGroup):
        def make_context(self, *args: Any, **kwargs: Any) -> Any:
            with one_line_for_usage_errors():
                return super().make_context(*args, **kwargs)

        def invoke(self, ctx: Any) -> Any:
            with one_line_for_usage_errors():
                return super().invoke(ctx)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            if name is not None and name in commands:
                command = commands[name].load(name)
            return name, command, rest

    def never_called() -> None:
        raise AssertionError("a command was called without being loaded")

    app = typer.Typer(cls=Group, **options)
    for name, command in commands.items():
        app.command(name, help=command.about, rich_help_panel=command.panel)(never_called)
    return app


DATA, ENVIRONMENTS, TRAINING = "Data", "Environments", "Training"
RECIPE_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}

COMMANDS = {
    "build": LazyCommand("datasets.cli.build:app", "Build a labelled dataset, split by time, from works.", DATA),
    "data": LazyCommand("datasets.cli.data:app", "Check or update a built dataset.", DATA),
    "labels": LazyCommand(
        "datasets.cli.labels:labels",
        "Compute every label of a citation graph: of a saved one, or of a table of citations and one of papers.",
        DATA,
    ),
    "list": LazyCommand("envs.cli:list_environments", "List the environments.", ENVIRONMENTS),
    "show": LazyCommand(
        "envs.cli:show", "Show the card of an environment, how common its labels are, and an example.", ENVIRONMENTS
    ),
    "play": LazyCommand("recipes.cli.play:play", "Play an environment: answer in place of a model.", ENVIRONMENTS),
    "check": LazyCommand(
        "recipes.cli.experiments:check",
        "Check that an environment is fit to train on and, with --learnable, that RL learns it.",
        ENVIRONMENTS,
    ),
    "train": LazyCommand(
        "recipes.cli.train:train",
        "Train a policy. Options of the recipe follow as name=value.",
        TRAINING,
        RECIPE_ARGUMENTS,
    ),
    "sweep": LazyCommand(
        "recipes.cli.experiments:sweep",
        "Run a recipe over a grid of options: group_size=4,8,16 learning_rate=1e-3,2e-3 seed=0,1,2.",
        TRAINING,
        RECIPE_ARGUMENTS,
    ),
    "study": LazyCommand(
        "recipes.cli.experiments:study",
        "Compare the base model, SFT, RL, SFT then RL, and DPO on the same splits: does RL beat SFT?",
        TRAINING,
        RECIPE_ARGUMENTS,
    ),
    "eval": LazyCommand(
        "recipes.cli.evaluate:evaluate",
        "Score a run's best checkpoint on papers it has not seen, or everything on all environments with --all.",
        TRAINING,
    ),
    "demo": LazyCommand(
        "recipes.cli.experiments:demo",
        "Build data, train a tiny model by SFT and RL, evaluate it and write a report, in minutes on two cores.",
        TRAINING,
    ),
    "watch": LazyCommand(
        "recipes.cli.runs:watch",
        "Watch a run: reward, KL, entropy, groups without signal, truncations, speed and alarms.",
        TRAINING,
    ),
    "report": LazyCommand(
        "recipes.cli.runs:report",
        "Write an HTML page about one or several runs: curves, scores, options that differ, transcripts, alarms.",
        TRAINING,
    ),
    "engine": LazyCommand(
        "cli:engine", "A Tinker-compatible engine on this machine, and tiny models to run on it.", TRAINING
    ),
}

ENGINE_COMMANDS = {
    "serve": LazyCommand("engine.cli:serve", "Serve the Tinker protocol until interrupted."),
    "get-model": LazyCommand(
        "engine.cli:get_model", "Fetch a language model into a Hugging Face folder, with its licence."
    ),
    "conform": LazyCommand(
        "engine.cli:conform", "Check that a server speaks Tinker's protocol as the SDK and the cookbook need it."
    ),
    "init-model": LazyCommand(
        "recipes.cli.train:init_model",
        "Make a tiny Qwen3-type model with its own tokenizer and pre-train it on a dataset's unlabelled prompts.",
    ),
    "export": LazyCommand(
        "recipes.cli.runs:export",
        "Write a checkpoint of the local engine as a peft adapter or, with --merged, as a model for transformers.",
    ),
}

app = lazy_group(COMMANDS, no_args_is_help=True, pretty_exceptions_show_locals=False)
engine = lazy_group(ENGINE_COMMANDS, no_args_is_help=True, help=COMMANDS["engine"].about)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"scisci-gym {version('scisci-gym')}")
        raise typer.Exit


@app.callback()
def _about(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Reinforcement-learning environments that ask a language model to judge science."""


def main() -> None:
    """Entry point of the console script."""
    app()
