import numpy as np
import pytest
import torch

from gpnn.graph import Graph
from gpnn.nn.columns.relations import Relations, closed_walks, is_directed, to_scipy


@pytest.fixture
def graph():
    """Typed, directed, with a loop and an edge twice."""
    random = np.random.default_rng(0)
    src, dst = random.integers(0, 12, (2, 40))
    src, dst = np.append(src, [3, src[0]]), np.append(dst, [3, dst[0]])
    return Graph(src, dst, 12, edge_type=random.integers(0, 2, 42))


def matrices(graph, num_types, directed):
    """The adjacency of each relation, receivers by senders, as numpy."""
    found = []
    for kind in range(num_types):
        matrix = np.zeros((graph.num_nodes, graph.num_nodes))
        for src, dst, own in zip(graph.src, graph.dst, graph.edge_type):
            if src != dst and (num_types == 1 or own == kind):
                matrix[dst, src] += 1
        found += [matrix, matrix.T] if directed else [matrix]
    return found


@pytest.mark.parametrize("num_types", [1, 2])
@pytest.mark.parametrize("directed", [False, True])
def test_relations_are_the_matrices_of_each_type_and_direction(graph, num_types, directed):
    relations = Relations.of(graph, num_types=num_types, directed=directed)
    expected = matrices(graph, num_types, directed)
    assert len(relations.each) == len(expected)
    for operator, matrix in zip(relations.each, expected):
        assert np.array_equal(to_scipy(operator).toarray(), matrix)
    assert np.array_equal(relations.degrees.numpy(), np.stack(expected, 1).sum(2))


def test_aggregates_are_those_of_numpy(graph):
    x = np.random.default_rng(1).standard_normal((12, 3)).astype(np.float32)
    found = Relations.of(graph, directed=True).aggregates(torch.from_numpy(x))
    for number, matrix in enumerate(matrices(graph, 1, True)):
        for node in range(12):
            rows = np.repeat(x, matrix[node].astype(int), 0)
            expected = [rows.mean(0), rows.max(0), rows.min(0)] if len(rows) else np.zeros((3, 3))
            for mine, theirs in zip(found[3 * number : 3 * number + 3], expected):
                np.testing.assert_allclose(mine[node].numpy(), theirs, rtol=1e-5, atol=1e-6)


def test_closed_walks_are_the_diagonal_of_the_product(graph):
    relations = Relations.of(graph, directed=True)
    dense = [to_scipy(each).toarray() for each in relations.each]
    for one, last in zip(dense, relations.each):
        for two, first in zip(dense, relations.each):
            assert np.array_equal(closed_walks(last, first).numpy(), np.diag(one @ two))


def test_many_relations_walk_over_all_edges_at_once(graph):
    ((last, first),) = Relations.of(graph, num_types=2, directed=True).pairs
    forth, back = matrices(graph, 1, True)
    assert np.array_equal(to_scipy(last).toarray(), forth + back)
    assert last is first


def test_a_graph_is_directed_where_an_edge_lacks_its_reverse(graph):
    assert is_directed(graph)
    assert not is_directed(graph.to_undirected())
