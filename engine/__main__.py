"""`python -m scisci_gym.engine`: what `scisci-gym engine` does, without importing the package's other commands."""

from .cli import app

app()
