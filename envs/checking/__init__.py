"""Checks that an environment is fit to train on. Nothing here trains."""

from . import checks as checks  # A check registers itself when it is imported.
