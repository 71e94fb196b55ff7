import networkx as nx
import numpy as np
import pytest
import torch

from gpnn.csr import compress
from gpnn.data.mesh import mesh_eccentricity
from gpnn.data.mesh_kernel import local_eccentricity


@pytest.mark.parametrize("hops", [1, 3])
def test_reach_is_the_eccentricity_of_networkxs_ego_networks(hops):
    graph = nx.random_geometric_graph(40, 0.3, seed=1)
    for first, second, edge in graph.edges(data=True):
        edge["length"] = float(np.linalg.norm(np.subtract(graph.nodes[first]["pos"], graph.nodes[second]["pos"])))
    directed = graph.to_directed()
    src, dst, length = zip(*directed.edges(data="length"), strict=True)
    ptr, index, edge = compress(np.array(src), np.array(dst), 40)
    found = local_eccentricity(ptr, index, np.array(length)[edge], hops)
    for node in graph:
        ego = nx.ego_graph(graph, node, radius=hops)
        routes = nx.single_source_dijkstra_path_length(ego, node, weight="length")
        assert found[node] == pytest.approx(max(routes.values()))


def test_classes_are_quantiles_and_a_tenth_trains():
    data = mesh_eccentricity(num_nodes=200, hops=3)
    assert data.y.bincount().tolist() == [20] * 10
    assert [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)] == [20, 20, 160]
    torch.testing.assert_close(data.x.mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    plain = nx.Graph(data.edge_index.T.tolist())
    assert nx.is_planar(plain)
    assert nx.is_connected(plain)
    assert not mesh_eccentricity(num_nodes=200, hops=3, seed=1).y.equal(data.y)


@pytest.mark.parametrize("options", [{"hops": 0}, {"num_classes": 1}, {"num_nodes": 3}])
def test_refuses(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be at least"):
        mesh_eccentricity(**options)
