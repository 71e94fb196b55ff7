import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, partition_graph
from gpnn.partition.refined import _preference
from tests.oracle.small_graphs import chain, graphs


def grid(rows: int, columns: int) -> Graph:
    node = np.arange(rows * columns).reshape(rows, columns)
    first = np.r_[node[:, :-1].ravel(), node[:-1].ravel()]
    second = np.r_[node[:, 1:].ravel(), node[1:].ravel()]
    return Graph(np.r_[first, second], np.r_[second, first], rows * columns)


def planted(num_blocks: int, size: int, degree: int, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Blocks of `size` nodes in random order; nine tenths of the edges lie inside; and each node's block."""
    rng = np.random.default_rng(seed)
    block = rng.permutation(np.repeat(np.arange(num_blocks), size))
    members = np.argsort(block, kind="stable").reshape(num_blocks, size)
    first = rng.integers(len(block), size=len(block) * degree // 2)
    inside = members[block[first], rng.integers(size, size=len(first))]
    second = np.where(rng.random(len(first)) < 0.1, rng.integers(len(block), size=len(first)), inside)
    return Graph(np.r_[first, second], np.r_[second, first], len(block)), block


@settings(max_examples=80, deadline=None)
@given(graphs(max_nodes=24, max_edges=60), st.data())
def test_parts_are_full_and_even_on_any_graph(graph, data):
    k = data.draw(st.integers(1, graph.num_nodes))
    sizes = partition_graph(graph, k, "refined", seed=data.draw(st.integers(0, 99))).sizes
    assert int(sizes.min()) >= 1
    assert int(sizes.max()) <= max(-(-graph.num_nodes // k), 1.05 * graph.num_nodes / k)


@settings(max_examples=80, deadline=None)
@given(graphs(max_nodes=24, max_edges=60), st.data())
def test_labels_can_be_even_as_well_as_nodes(graph, data):
    k = data.draw(st.integers(1, graph.num_nodes))
    train = data.draw(st.lists(st.booleans(), min_size=graph.num_nodes, max_size=graph.num_nodes).filter(any))
    train_mask = torch.tensor(train)
    part = partition_graph(graph, k, "refined", balance_labels=True, train_mask=train_mask)
    quality = part.quality(graph, train_mask)
    assert max(quality.train_labels) <= max(-(-sum(train) // k), 1.05 * sum(train) / k)
    assert max(quality.sizes) <= max(-(-graph.num_nodes // k), 1.05 * graph.num_nodes / k)


def test_two_cliques_joined_by_an_edge_are_told_apart():
    pairs = [(u + b, v + b) for b in (0, 8) for u in range(8) for v in range(u)] + [(0, 8)]
    graph = Graph([u for u, _ in pairs], [v for _, v in pairs], 16)
    for seed in range(10):
        assert partition_graph(graph, 2, "refined", seed=seed).quality(graph).num_cut_edges == 1


def test_a_chain_is_cut_once_between_parts():
    for seed in range(5):
        assert partition_graph(chain(400), 4, "refined", seed=seed).quality(chain(400)).num_cut_edges <= 8


def test_a_grid_is_cut_near_the_least():
    """Four squares of 20 × 20 cut 80 edges, 160 directed; METIS cuts about as many."""
    graph = grid(40, 40)
    cuts = [partition_graph(graph, 4, "refined", seed=seed).quality(graph).num_cut_edges for seed in range(5)]
    assert sorted(cuts)[2] <= 1.2 * 160


def test_planted_blocks_are_found():
    """Blocks of 100 nodes packed into 8 parts: a tenth of the edges must be cut, nearly no others are."""
    graph, _ = planted(64, 100, 12)
    quality = partition_graph(graph, 8, "refined").quality(graph)
    assert quality.edge_cut < 0.1 * 7 / 8 * 1.3
    assert quality.balance <= 1.05


def test_many_nodes_are_coarsened_and_brought_back():
    """Large enough for several levels: the cut stays far under flood fill's."""
    graph, _ = planted(100, 200, 10)
    ours, flood = (partition_graph(graph, 10, method).quality(graph).edge_cut for method in ("refined", "flood_fill"))
    assert ours < 0.5 * flood


def test_edges_can_be_balanced_instead_of_nodes():
    rng = np.random.default_rng(0)
    hubs = rng.integers(10, size=4000), rng.integers(2000, size=4000)
    graph = Graph(np.r_[hubs[0], rng.integers(2000, size=2000)], np.r_[hubs[1], rng.integers(2000, size=2000)], 2000)
    nodes = partition_graph(graph, 4, "refined").quality(graph)
    edges = partition_graph(graph, 4, "refined", balance="edges").quality(graph)
    assert nodes.balance <= 1.05
    assert edges.edge_balance <= 1.06 < nodes.edge_balance


def test_isolated_nodes_do_not_stand_in_for_others():
    """Half of the nodes are isolated: the rest is even by itself."""
    graph = Graph.union([grid(20, 20), Graph([], [], num_nodes=400)])[0]
    part = partition_graph(graph, 4, "refined")
    assert part.sizes.tolist() == [200, 200, 200, 200]
    assert torch.bincount(part.labels[:400]).max() <= 105


def test_seeds_differ():
    graph = grid(12, 12)
    assert len({tuple(partition_graph(graph, 4, "refined", seed=seed).labels.tolist()) for seed in range(5)}) > 1


def test_seeds_are_drawn_by_the_degrees_of_labelled_nodes():
    """Nodes 0 and 1 form one cluster, 2 and 3 another; 1, 2 and 3 are labelled."""
    degree, names = np.array([5, 3, 2, 1]), [np.array([0, 0, 1, 1])]
    assert _preference(degree, names, torch.tensor([1, 2, 3]), 2).tolist() == [3, 3]
    assert _preference(degree, [], torch.tensor([3]), 4).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"balance": "cost"}, r"`balance` must be one of nodes, edges. Got 'cost'."),
        ({"imbalance": -0.1}, r"`imbalance` must be at least 0. Got -0.1."),
        ({"imbalance": float("nan")}, r"`imbalance` must be at least 0. Got nan."),
        ({"cycles": -1}, r"`cycles` must be an integer of at least 0. Got -1."),
        ({"balance_labels": True}, r"`balance_labels` needs training nodes \(`train_mask`\). Got none."),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        partition_graph(chain(4), 2, "refined", **options)


@pytest.mark.parametrize("make", [lambda: grid(40, 40), lambda: planted(20, 200, 10)[0]])
def test_cycles_lower_the_cut_and_keep_the_balance(make):
    graph = make()
    once, again = (partition_graph(graph, 8, "refined", seed=1, cycles=cycles).quality(graph) for cycles in (0, 3))
    assert again.edge_cut < once.edge_cut
    assert again.balance <= 1.05


@settings(max_examples=40, deadline=None)
@given(graphs(max_nodes=24, max_edges=60), st.data())
def test_cycles_keep_parts_even_on_any_graph(graph, data):
    k = data.draw(st.integers(1, graph.num_nodes))
    sizes = partition_graph(graph, k, "refined", cycles=2, seed=data.draw(st.integers(0, 99))).sizes
    assert int(sizes.min()) >= 1
    assert int(sizes.max()) <= max(-(-graph.num_nodes // k), 1.05 * graph.num_nodes / k)


@pytest.mark.parametrize("mesh", ["4elt", "wing"])
def test_a_mesh_is_cut_at_most_half_as_much_again_as_by_metis(data_root, mesh):
    pytest.importorskip("pymetis")
    lines = (data_root / "meshes" / f"{mesh}.graph").read_text().splitlines()
    num_nodes = int(lines[0].split()[0])
    rows = [np.array(line.split(), np.int64) - 1 for line in lines[1 : num_nodes + 1]]
    graph = Graph(np.repeat(np.arange(num_nodes), [len(row) for row in rows]), np.concatenate(rows), num_nodes)
    ours, theirs = (partition_graph(graph, 10, method).quality(graph) for method in ("refined", "metis"))
    assert ours.edge_cut <= 1.5 * theirs.edge_cut
    assert ours.balance <= 1.05


def test_many_parts_of_a_graph_that_cuts_badly_are_all_of_use():
    graph, _ = planted(10, 400, 10)
    sizes = partition_graph(graph, 45, "refined", seed=0).sizes
    assert int(sizes.min()) >= 0.5 * graph.num_nodes / 45
