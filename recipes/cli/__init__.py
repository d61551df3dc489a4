"""The commands of the recipes: training, what is done with a run, experiments, and evaluation."""
