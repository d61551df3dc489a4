"""From papers and environments to what the cookbook trains on: groups, orders of examples, outcome metrics."""
