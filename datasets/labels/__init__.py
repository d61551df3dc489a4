"""Labels: which papers are eligible for one, how scores are cut into labels, and all labels of a graph in one table.

Each rule is one function, and every source of papers uses it.
"""
