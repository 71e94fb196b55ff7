import networkx
import numpy as np
import pytest
from scipy.sparse import csr_array

from gpnn.nn.structure_columns import NUM_STRUCTURE, structure_columns


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_those_of_networkx(seed):
    graph = networkx.gnm_random_graph(60, 40 * (seed + 1), seed=seed)
    graph.add_nodes_from(range(60, 63))
    found = structure_columns(csr_array(networkx.to_scipy_sparse_array(graph, format="csr"))).double().numpy()
    assert found.shape == (63, NUM_STRUCTURE)
    degree = np.log1p([graph.degree[node] for node in graph])
    around = [degree[list(graph[node])] if len(graph[node]) else np.zeros(1) for node in graph]
    size = {node: len(part) for part in networkx.connected_components(graph) for node in part}
    expected = [
        np.log1p(list(networkx.triangles(graph).values())),
        list(networkx.clustering(graph).values()),
        np.log1p(list(networkx.core_number(graph).values())),
        np.log1p([size[node] for node in graph]),
        *([reduce(each) for each in around] for reduce in (np.mean, np.max, np.min)),
    ]
    np.testing.assert_allclose(found.T, expected, rtol=1e-5, atol=1e-6)


def test_weights_and_repeated_edges_do_not_count():
    path = csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    repeated = csr_array(([2.0, -1.0, 0.0, 3.0, 3.0], ([0, 1, 1, 2, 2], [1, 0, 2, 1, 1])), shape=(3, 3))
    np.testing.assert_array_equal(structure_columns(repeated), structure_columns(path))


def test_a_graph_without_edges():
    found = structure_columns(csr_array((4, 4)))
    assert found[:, 3].exp().tolist() == pytest.approx([2.0] * 4)
    assert not found[:, [0, 1, 2, 4, 5, 6]].any()
