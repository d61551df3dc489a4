"""Evaluation results as text, pictures and pages. Nothing here computes a score."""
