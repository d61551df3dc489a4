"""Checks that an environment is fit to train on. Nothing here trains."""
