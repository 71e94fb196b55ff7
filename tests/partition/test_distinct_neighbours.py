import numpy as np
from hypothesis import given, settings

from gpnn import Graph
from gpnn.partition.distinct_neighbours import distinct_neighbours, edge_ends
from tests.oracle.small_graphs import graphs


def test_neighbours_are_symmetric_distinct_and_weighed_by_their_number():
    graph = Graph([0, 0, 1, 2, 2], [1, 1, 0, 2, 1], num_nodes=4)
    ptr, index, weight = distinct_neighbours(graph)
    assert ptr.tolist() == [0, 1, 3, 4, 4]
    assert index.tolist() == [1, 0, 2, 1]
    assert weight.tolist() == [3, 3, 1, 1]
    assert {array.dtype.name for array in (ptr, index, weight)} == {"int64"}


def test_ends_of_edges_are_summed_by_row():
    ptr, _, weight = distinct_neighbours(Graph([0, 0, 1, 2, 2], [1, 1, 0, 2, 1], num_nodes=4))
    assert edge_ends(ptr, weight).tolist() == [3, 4, 1, 0]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_the_matrix_is_symmetric_and_counts_the_edges_between_two_nodes(graph):
    ptr, index, weight = distinct_neighbours(graph)
    dense = np.zeros((graph.num_nodes, graph.num_nodes), int)
    dense[np.repeat(np.arange(graph.num_nodes), np.diff(ptr)), index] = weight
    count = graph.to_scipy(weighted=False).toarray()
    np.fill_diagonal(count, 0)
    both = count + count.T
    assert (dense == both).all() or (dense == count).all()
    assert (dense == dense.T).all()
