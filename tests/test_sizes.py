import pytest

from gpnn import Graph
from gpnn.sizes import choose_hidden, choose_parts, choose_rounds


def test_parts_never_pass_the_nodes():
    assert [choose_parts(num_nodes) for num_nodes in (1, 2, 10, 10_000)] == [1, 2, 2, 17]


@pytest.mark.parametrize(("num_nodes", "degree", "rounds"), [(2708, 4, 5), (1797, 13, 3), (10**4, 2, 5), (4, 3, 2)])
def test_rounds_cross_a_random_graph(num_nodes, degree, rounds):
    graph = Graph([0] * (num_nodes * degree), [0] * (num_nodes * degree), num_nodes=num_nodes)
    assert choose_rounds(graph) == rounds


def test_rounds_of_a_graph_without_edges():
    assert choose_rounds(Graph([], [], num_nodes=3)) == 2


def test_hidden_grows_with_the_classes():
    assert [choose_hidden(classes) for classes in (2, 32, 33, 1000)] == [128, 128, 256, 512]
