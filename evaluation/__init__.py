"""Evaluation: asking policies and baselines the same questions, and scoring the answers. Nothing here trains."""
