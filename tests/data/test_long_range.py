"""Tasks whose answer lies many hops away, against networkx."""

import networkx as nx
import numpy as np
import pytest
import torch

from gpnn.csr import compress
from gpnn.data.kernels import local_eccentricity
from gpnn.data.long_range import diameter, eccentricity, mesh_eccentricity, ring_transfer, shortest_path, tree_match


def graphs_of(data):
    """Each graph with its nodes' ids."""
    whole = nx.Graph(data.edge_index.T.tolist())
    assert sorted(whole) == list(range(data.num_nodes))
    return [whole.subgraph(nodes) for nodes in sorted(nx.connected_components(whole), key=min)]


@pytest.mark.parametrize("task", [eccentricity, shortest_path, diameter])
def test_targets_are_those_of_networkx(task):
    data = task(num_graphs=30, longest=20)
    graphs = graphs_of(data)
    assert len(graphs) == 30
    for graph in graphs:
        first = min(graph)
        expected = {
            "eccentricity": lambda graph: nx.eccentricity(graph),
            "shortest_path": lambda graph, first=first: nx.shortest_path_length(graph, first),
            "diameter": lambda graph: dict.fromkeys(graph, nx.diameter(graph)),
        }[task.__name__](graph)
        assert {node: data.y[node].item() for node in graph} == expected
        assert [node for node in graph if data.x[node, 1]] == [first]


def test_every_graph_is_whole_in_one_split():
    data = eccentricity(num_graphs=60)
    masks = torch.stack([data.train_mask, data.val_mask, data.test_mask])
    assert bool((masks.sum(0) == 1).all())
    shares = [0, 0, 0]
    for graph in graphs_of(data):
        of = masks[:, sorted(graph)]
        assert of.unique(dim=1).shape[1] == 1
        shares[int(of[:, 0].nonzero())] += 1
    assert shares == [36, 12, 12]


@pytest.mark.thorough
def test_the_shapes_are_as_long_as_they_should_be():
    graphs = graphs_of(eccentricity(num_graphs=60, longest=40))
    lengths = np.array([nx.diameter(graph) for graph in graphs])
    assert (lengths[::6] >= 17).all()
    assert (lengths[::6] <= 40).all()  # lines
    assert lengths.max() < 80
    assert all(nx.is_tree(graphs[kind]) for kind in (0, 3, 4, 5))


def test_a_ring_shows_its_class_opposite_to_where_it_is_asked():
    data = ring_transfer(num_graphs=10, length=6, test_scale=16)
    asked = (data.y >= 0).nonzero().flatten()
    assert (data.train_mask | data.val_mask | data.test_mask).nonzero().flatten().equal(asked)
    for graph in graphs_of(data):
        (node,) = (int(each) for each in asked if int(each) in graph)
        (shown,) = (each for each in graph if data.x[each, :-1].any())
        assert nx.shortest_path_length(graph, shown, node) == len(graph) // 2
        assert data.x[shown, :-1].argmax() == data.y[node]
        assert len(graph) == (96 if data.test_mask[node] else 6)


def test_longer_graphs_and_rings_of_several_lengths():
    lengths = [nx.diameter(graph) for graph in graphs_of(shortest_path(num_graphs=6, longest=20, scale=4))]
    assert lengths[0] % 4 == 0  # a line
    assert min(lengths) >= 60
    sizes = {len(graph) for graph in graphs_of(ring_transfer(num_graphs=60, length=8, shortest=5))}
    assert sizes == {5, 6, 7, 8}


def test_a_tree_asks_for_the_value_of_the_roots_key():
    data = tree_match(num_graphs=5, depth=3)
    for graph in graphs_of(data):
        root = min(graph)
        key = int(data.x[root, :8].argmax())
        (leaf,) = (node for node in graph if node != root and data.x[node, key])
        assert nx.shortest_path_length(graph, root, leaf) == 3
        assert data.x[leaf, 8:].argmax() == data.y[root]
        assert [node for node in graph if data.y[node] >= 0] == [root]


@pytest.mark.parametrize(
    "options", [{"length": 2}, {"num_graphs": 4}, {"num_classes": 1}, {"test_scale": 0}, {"shortest": 2}]
)
def test_refuses(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be"):
        ring_transfer(**options)


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
def test_a_mesh_refuses(options):
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must be at least"):
        mesh_eccentricity(**options)
