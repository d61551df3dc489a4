"""Citation graphs: who cites whom and when, and how a graph is made of edges, tables, parquet files, or another graph.

Nothing here knows what a label is.
"""

from .citation_graph import CitationGraph
from .files import GraphReport

__all__ = ["CitationGraph", "GraphReport"]
