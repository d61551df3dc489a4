"""Experiments of several runs: the demo, the study, sweeps, and the evaluation of runs."""
