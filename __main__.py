"""`python -m scisci_gym` is the command `scisci-gym`."""

from .cli import main

main()
