"""`check_env`: is an environment fit to train on? Many small checks, each with a name; the first failure is raised."""

from collections.abc import Callable

from ..registry import spec
from .checks import CHECKS
from .subject import Subject


class EnvCheckError(AssertionError):
    """An environment failed a check. The message names both and says what was found."""


def check_names() -> list[str]:
    """The checks in the order in which they run."""
    return [function.__name__ for function in CHECKS]


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
    for function in CHECKS:
        try:
            function(subject)
        except AssertionError as error:
            raise EnvCheckError(f"{env_id}: {function.__name__}: {error}") from error
        if on_pass is not None:
            on_pass(function.__name__)
    return check_names()
