import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, partition_graph
from tests.oracle.small_graphs import graphs


def divide(graph: Graph, k: int) -> list[int]:
    return partition_graph(graph, k, method="components").labels.tolist()


def test_the_largest_comes_first_and_each_goes_to_the_smallest_part():
    # components {0, 1}, {2, 3, 4}, {5}, {6, 7}: 3 | 2, then 3 | 4, then 4 | 4
    graph = Graph([0, 2, 4, 7], [1, 3, 3, 6], num_nodes=8)
    assert divide(graph, 2) == [1, 1, 0, 0, 0, 0, 1, 1]


def test_isolated_nodes_are_components():
    assert divide(Graph([0, 1], [1, 1], num_nodes=4), 3) == [0, 0, 1, 2]


def test_more_parts_than_components_are_refused():
    with pytest.raises(ValueError, match=r"`k` must be at most the 2 connected components. Got 3."):
        divide(Graph([0, 1], [1, 2], num_nodes=4), 3)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_no_edge_is_cut_and_no_part_is_empty(graph, data):
    k = data.draw(st.integers(1, int(graph.components().max()) + 1))
    quality = partition_graph(graph, k, method="components").quality(graph)
    assert (quality.num_cut_edges, quality.num_empty) == (0, 0)
