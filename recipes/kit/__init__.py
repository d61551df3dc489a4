"""What recipes share: configuration, engines, checkpoints, validation, and the order of examples."""
