"""`check_env`: is an environment fit to train on? Many small checks, each with a name; the first failure is raised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...datasets.paper import Paper
from ..kit.base import Example, SciSciEnv
from ..kit.samples import sample_papers
from ..registry import spec


class EnvCheckError(AssertionError):
    """An environment failed a check. The message names both and says what was found."""


@dataclass(frozen=True)
class Subject:
    """What a check looks at: an environment class and examples for it."""

    env_class: type[SciSciEnv]

    @cached_property
    def papers(self) -> list[Paper]:
        """The built-in papers."""
        return sample_papers()

    @cached_property
    def examples(self) -> list[Example]:
        """Every benchmark example of the built-in papers."""
        return self.env_class.benchmark_examples(self.papers)

    @cached_property
    def balanced(self) -> list[Example]:
        """Examples with equally many of each gold label."""
        by_label: dict[str, list[Example]] = {}
        for example in self.examples:
            by_label.setdefault(self.env_class(*example).gold_label, []).append(example)
        size = min(map(len, by_label.values()))
        return [example for examples in by_label.values() for example in examples[:size]]

    @property
    def floor(self) -> float:
        """The least an episode can earn."""
        return self.env_class.reward_range[0]

    @property
    def best(self) -> float:
        """The most an episode can earn."""
        return self.env_class.reward_range[1]


Check = Callable[[Subject], None]
_CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Decorator that adds a check. Its name says what must hold; it raises `AssertionError` where that does not."""
    _CHECKS.append(function)
    return function


def check_names() -> list[str]:
    """The checks in the order in which they run."""
    return [function.__name__ for function in _CHECKS]


def check_env(env_id: str, on_pass: Callable[[str], None] | None = None) -> list[str]:
    """Run every check on an environment.

    Parameters
    ----------
    env_id : str
    on_pass : callable or None
        Called with the name of every check that passed, to show progress.

    Returns
    -------
    list of str
        The names of the checks, all of which passed.

    Raises
    ------
    EnvCheckError
        At the first check that fails.
    ValueError
        If there is no such environment.

    Examples
    --------
    >>> len(check_env("disruption-v0")) > 15
    True
    """
    subject = Subject(spec(env_id))
    for function in _CHECKS:
        try:
            function(subject)
        except AssertionError as error:
            raise EnvCheckError(f"{env_id}: {function.__name__}: {error}") from error
        if on_pass is not None:
            on_pass(function.__name__)
    return check_names()
