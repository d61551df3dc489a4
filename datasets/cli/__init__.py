"""The data commands of `scisci-gym`: `build`, `data` and `labels`."""
