"""Challengers and judges by name, as the command line and run records have them: `scripted`, `litellm:openai/NAME`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

Thing = TypeVar("Thing")


class _Entry(NamedTuple, Generic[Thing]):
    make: Callable[[str], Thing]
    argument: str
    summary: str


class Named(Generic[Thing]):
    """A registry of things of one kind that are made from a name and, for some, an argument after a colon.

    Parameters
    ----------
    kind : str
        What they are called in error messages, such as ``"challenger"``.
    base : type
        What they are instances of.
    """

    def __init__(self, kind: str, base: type[Thing]):
        self.kind, self.base = kind, base
        self._entries: dict[str, _Entry[Thing]] = {}
        # Once a process: a thing may hold a connection.
        self._made = lru_cache(maxsize=64)(self._make)

    def register(self, name: str, make: Callable[[str], Thing], summary: str, argument: str = "") -> None:
        """Add an entry.

        Parameters
        ----------
        name : str
        make : callable
            From the argument to the thing; the argument is empty for an entry that takes none.
        summary : str
            One line for help texts.
        argument : str
            What the argument is called in help texts, such as ``"MODEL"``; empty if there is none.

        Raises
        ------
        ValueError
            If the name is taken.
        """
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered already")
        self._entries[name] = _Entry(make, argument, summary)

    def listing(self) -> dict[str, str]:
        """How each entry is written, and its summary."""
        return {self._form(name): entry.summary for name, entry in self._entries.items()}

    def _form(self, name: str) -> str:
        argument = self._entries[name].argument
        return f"{name}:{argument}" if argument else name

    def resolve(self, value: object) -> Thing:
        """The thing that `value` is or names.

        Raises
        ------
        ValueError
            If it is neither a thing of this kind nor a registered name, or the argument of a name is missing or not
            wanted.
        """
        return value if isinstance(value, self.base) else self._made(str(value))

    def _make(self, text: str) -> Thing:
        name, _, argument = text.partition(":")
        if name not in self._entries or bool(argument) != bool(self._entries[name].argument):
            raise ValueError(f"no {self.kind} {text!r}; there is {', '.join(self.listing())}")
        return self._entries[name].make(argument)
