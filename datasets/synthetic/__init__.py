"""A synthetic corpus with a real citation graph, and the best score that a reader of its texts can reach."""
