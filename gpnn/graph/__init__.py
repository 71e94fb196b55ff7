"""Graph: the structure that messages travel on."""

from gpnn.graph.graph import Graph, GraphLike, as_graph

__all__ = ["Graph", "GraphLike", "as_graph"]
