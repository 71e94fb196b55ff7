"""Small graphs for tests: chains, rings, and drawn ones with self-loops, parallel edges and components."""

import numpy as np
from hypothesis import strategies as st

from gpnn import Graph


def chain(size: int) -> Graph:
    """0 – 1 – … – (size − 1), both directions."""
    a = np.arange(size - 1)
    return Graph(np.r_[a, a + 1], np.r_[a + 1, a], size)


def ring(size: int) -> Graph:
    """A chain whose ends are joined."""
    a = np.arange(size)
    return Graph(np.r_[a, (a + 1) % size], np.r_[(a + 1) % size, a], size)


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 9, max_edges: int = 16) -> Graph:
    """Directed graphs; self-loops, parallel edges, several components and no edges at all occur."""
    size = draw(st.integers(1, max_nodes))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=max_edges))
    return Graph([u for u, _ in edges], [v for _, v in edges], size)


@st.composite
def undirected_graphs(draw: st.DrawFn, max_nodes: int = 9, max_edges: int = 10) -> Graph:
    """As `graphs`, with the reverse of every edge."""
    graph = draw(graphs(max_nodes, max_edges))
    src, dst = graph.src.tolist(), graph.dst.tolist()
    return Graph(src + dst, dst + src, graph.num_nodes)


@st.composite
def partitioned_graphs(draw: st.DrawFn) -> tuple[Graph, list[int]]:
    """A graph and the subgraph of each node; subgraphs may be empty."""
    graph = draw(graphs())
    labels = draw(st.lists(st.integers(0, 3), min_size=graph.num_nodes, max_size=graph.num_nodes))
    return graph, labels
