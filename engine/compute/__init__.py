"""The model: reading it, adapters, sampling, training, checkpoints. Nothing here knows the protocol."""
