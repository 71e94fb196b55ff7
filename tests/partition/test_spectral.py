import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, load_dataset, partition_graph
from gpnn.partition.spectral import POINTS, share_parts
from tests.oracle.small_graphs import chain, graphs


def cliques(number: int, size: int) -> Graph:
    """Cliques in a row, each joined to the next by one edge; every edge in one direction."""
    pairs = [(c * size + u, c * size + v) for c in range(number) for u in range(size) for v in range(u)]
    pairs += [(c * size, (c + 1) * size) for c in range(number - 1)]
    return Graph([u for u, _ in pairs], [v for _, v in pairs], number * size)


def grid(side: int) -> Graph:
    node = np.arange(side * side).reshape(side, side)
    pairs = np.r_[np.c_[node[:, :-1].ravel(), node[:, 1:].ravel()], np.c_[node[:-1].ravel(), node[1:].ravel()]]
    return Graph(pairs[:, 0], pairs[:, 1], side * side)


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("number", [2, 5])
def test_joined_cliques_are_found(number, points):
    graph = cliques(number, 6)
    part = partition_graph(graph, number, method="spectral", points=points)
    assert part.quality(graph).num_cut_edges == number - 1
    assert part.sizes.tolist() == [6] * number


def test_loops_repeats_and_directions_do_not_matter():
    graph = cliques(2, 6)
    src, dst = graph.src.tolist(), graph.dst.tolist()
    messy = Graph(src + dst + [3] * 9, dst + src + [3] * 9, 12)
    plain, other = (partition_graph(each, 2, method="spectral").labels for each in (graph, messy))
    assert plain.equal(other) or plain.equal(1 - other)


@pytest.mark.parametrize(("k", "most"), [(4, 0.06), (10, 0.12)])
def test_a_grid_is_divided_into_blocks(k, most):
    """Four quarters of a 40 × 40 grid cut 80 of 3,120 edges (0.026), strips of a fourth 120 (0.038)."""
    graph = grid(40)
    quality = partition_graph(graph, k, method="spectral").quality(graph)
    assert quality.edge_cut < most
    assert quality.balance < 2


def test_large_components_are_divided_and_small_ones_stay_whole():
    graph, start = Graph.union([cliques(2, 8), chain(3), Graph([], [], 2), chain(2)])
    labels = partition_graph(graph, 2, method="spectral").labels
    assert len(labels[:8].unique()) == len(labels[8:16].unique()) == 1
    assert labels[0] != labels[8]
    for member in (1, 3):
        assert len(labels[start[member] : start[member + 1]].unique()) == 1


def test_isolated_nodes_go_to_the_smallest_parts():
    graph = Graph.union([cliques(2, 6), Graph([], [], 3)])[0]
    part = partition_graph(graph, 2, method="spectral")
    assert sorted(part.sizes.tolist()) == [7, 8]
    assert part.quality(graph).num_cut_edges == 1


def test_a_graph_without_edges_is_shared_out_evenly():
    assert partition_graph(Graph([], [], 7), 3, method="spectral").sizes.tolist() == [3, 2, 2]


@pytest.mark.parametrize(
    ("size", "k", "parts"),
    [
        ([10], 4, [4]),
        ([60, 50], 2, [1, 1]),
        ([100, 1], 2, [2, 0]),
        ([30, 10], 4, [3, 1]),
        ([100] + [1] * 100, 4, [2] + [0] * 100),
        ([1] * 9, 3, [0] * 9),
        ([3, 2, 1], 6, [3, 2, 1]),
        ([5, 5, 5], 2, [1, 1, 0]),
    ],
)
def test_parts_are_shared_by_size(size, k, parts):
    assert share_parts(np.array(size), k).tolist() == parts


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_every_part_of_any_graph_has_a_node(graph, data):
    k = data.draw(st.integers(1, graph.num_nodes))
    part = partition_graph(graph, k, method="spectral", points=data.draw(st.sampled_from(["modes", "directions"])))
    assert (part.num_nodes, part.num_parts) == (graph.num_nodes, k)
    assert part.sizes.min() >= 1


def test_the_same_seed_gives_the_same_parts():
    first, again = (partition_graph(grid(40), 7, method="spectral", seed=5).labels for _ in range(2))
    assert first.equal(again)


def test_unknown_points_list_the_choices():
    with pytest.raises(ValueError, match=r"`points` must be one of modes, directions, released. Got 'rows'."):
        partition_graph(chain(4), 2, method="spectral", points="rows")


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 10, 20, 30])
def test_nell_is_divided(data_root, k):
    data = load_dataset("nell", root=data_root, rate=0.001)
    quality = partition_graph(data, k, method="spectral").quality(data)
    assert quality.num_empty == 0
    assert quality.edge_cut < 0.02


@pytest.mark.slow
def test_a_large_grid_converges():
    """Ten parts of a 316 × 316 grid cut 0.008 of its edges; from a loosely converged embedding, 0.079."""
    graph = grid(316)
    assert partition_graph(graph, 10, method="spectral").quality(graph).edge_cut < 0.01
