from collections import Counter

from hypothesis import given, settings

from gpnn import Graph
from gpnn.partition.neighbours import neighbours
from gpnn.partition.neighbours_kernel import survey
from tests.oracle.small_graphs import chain, graphs, undirected_graphs


def _entries(graph: Graph) -> Counter:
    ptr, index = neighbours(graph)
    assert ptr[-1] == len(index)
    return Counter((node, int(v)) for node in range(graph.num_nodes) for v in index[ptr[node] : ptr[node + 1]])


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_an_asymmetric_graph_is_doubled(graph):
    edges = [(u, v) for u, v in zip(graph.src.tolist(), graph.dst.tolist()) if u != v]
    both = Counter(edges) + Counter((v, u) for u, v in edges)
    symmetric = all(Counter(edges)[v, u] == count for (u, v), count in Counter(edges).items())
    assert _entries(graph) == (Counter(edges) if symmetric else both)


@settings(max_examples=40, deadline=None)
@given(undirected_graphs())
def test_a_symmetric_graph_keeps_its_entries(graph):
    assert survey(graph.src.numpy(), graph.dst.numpy())[0]
    assert sum(_entries(graph).values()) == int((graph.src != graph.dst).sum())


def test_symmetry_counts_repeats():
    assert survey(*_arrays(Graph([0, 0, 1], [1, 1, 0], num_nodes=2)))[0] == 0
    assert survey(*_arrays(Graph([0, 0, 1, 1], [1, 1, 0, 0], num_nodes=2)))[0] == 1
    assert survey(*_arrays(Graph([0, 1, 2], [1, 2, 0], num_nodes=3)))[0] == 0  # every node has one edge in and out


def test_self_loops_are_counted_and_dropped():
    graph = Graph([0, 1, 1, 1], [1, 0, 1, 1], num_nodes=2)
    assert survey(*_arrays(graph))[1] == 2
    assert _entries(graph) == Counter({(0, 1): 1, (1, 0): 1})


def test_the_rows_of_a_chain():
    ptr, index = neighbours(chain(3))
    assert (ptr.tolist(), index.tolist()) == ([0, 1, 3, 4], [1, 2, 0, 1])


def _arrays(graph: Graph) -> tuple:
    return graph.src.numpy(), graph.dst.numpy()
