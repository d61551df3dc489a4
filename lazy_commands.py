"""Commands that are imported when they are called, so that `--help` does not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


@dataclass(frozen=True)
class LazyCommand:
    """A command by name.

    Parameters
    ----------
    target : str
        ``module:attribute`` inside this package: a function, or a `typer.Typer` with commands of its own.
    about : str
        Its line in the list of commands: the first sentence of what it says about itself.
    panel : str or None
        Heading in that list.
    settings : mapping
        Context settings, such as ``{"allow_extra_args": True}``.
    """

    target: str
    about: str
    panel: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def load(self, name: str) -> Any:
        """The real command, for the command-line parser."""
        module, attribute = self.target.split(":")
        found = getattr(import_module(f".{module}", __package__), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(name, context_settings=dict(self.settings) or None)(found)
        return typer.main.get_command(alone)


def lazy_group(commands: Mapping[str, LazyCommand], **options: Any) -> typer.Typer:
    """A `typer.Typer` that lists commands by what is said about them here, and imports the one that is called.

    Parameters
    ----------
    commands : mapping from name to LazyCommand
        In the order in which they are listed.
    **options
        Of `typer.Typer`.
    """

    class Group(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, command, rest = super().resolve_command(ctx, args)
            if name is not None and name in commands:
                command = commands[name].load(name)
            return name, command, rest

    app = typer.Typer(cls=Group, **options)
    for name, command in commands.items():
        app.command(name, help=command.about, rich_help_panel=command.panel)(_listed(name))
    return app


def _listed(name: str) -> Callable[[], None]:
    def stand_in() -> None:
        raise AssertionError(f"{name} was called without being loaded")

    return stand_in
