"""`python -m scisci_gym.engine`: what `scisci-gym engine` does, without importing the rest of the package's
commands.
"""

from .cli import app

app()
