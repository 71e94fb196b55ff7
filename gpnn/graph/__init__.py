"""Graph: the structure that messages are sent on."""

from gpnn.graph.edges import CSRRows, EdgeDigest, digest_edges
from gpnn.graph.graph import Graph, GraphLike, as_graph

__all__ = ["CSRRows", "EdgeDigest", "Graph", "GraphLike", "as_graph", "digest_edges"]
