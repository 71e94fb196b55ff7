"""The released clustering: what its code computes, from a start that the seed gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans

import gpnn.partition.spectral as module
from gpnn import Graph, load_dataset, partition_graph
from gpnn.partition.spectral import POINTS, k_means, share_parts
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


def as_released(graph: Graph, k: int, seed: int) -> np.ndarray:
    """The released steps on a dense matrix, repeated edges added up."""
    weights = np.zeros((graph.num_nodes, graph.num_nodes), np.float32)
    np.add.at(weights, (graph.src.numpy(), graph.dst.numpy()), 1)
    degree = weights.sum(0)
    laplacian = np.diag((degree != 0).astype(np.float32)) - weights / np.maximum(degree, 1)[:, None]
    start = np.random.default_rng(seed).uniform(-1, 1, graph.num_nodes).astype(np.float32)
    vectors = eigsh(laplacian, k=k, which="SM", v0=start)[1]
    return KMeans(k, n_init=10, random_state=seed).fit_predict(vectors)


def test_it_clusters_what_the_released_code_does():
    rng = np.random.default_rng(0)
    src = np.r_[rng.integers(0, 30, 90), rng.integers(30, 60, 90), [0]]
    dst = np.r_[rng.integers(0, 30, 90), rng.integers(30, 60, 90), [30]]
    keep = src != dst
    graph = Graph(src[keep], dst[keep], 62).to_undirected()
    for seed in range(3):
        ours = partition_graph(graph, 3, method="spectral", points="released", seed=seed).labels.numpy()
        expected = as_released(graph, 3, seed)
        assert len({*zip(ours.tolist(), expected.tolist())}) == 3  # the same parts, whatever they are called


def test_cora_is_nearly_one_part_and_the_start_decides_how_nearly(data_root):
    data = load_dataset("cora", root=data_root)
    parts = [partition_graph(data, 5, method="spectral", points="released", seed=seed) for seed in (2, 2, 3)]
    assert parts[0].labels.equal(parts[1].labels)
    assert not parts[0].labels.equal(parts[2].labels)
    assert all(part.sizes.min() > 0 for part in parts)
    assert all(part.quality(data).edge_cut < 0.1 for part in parts)


def test_another_start_is_tried_where_one_does_not_converge(monkeypatch):
    starts = []

    def fail_once(*arguments, v0, **options):
        starts.append(v0)
        if len(starts) == 1:
            raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))
        return eigsh(*arguments, v0=v0, **options)

    monkeypatch.setattr("scipy.sparse.linalg.eigsh", fail_once)
    partition_graph(chain(30), 3, method="spectral", points="released")
    assert len(starts) == 2
    assert not np.array_equal(*starts)


def test_it_says_so_where_no_start_converges(monkeypatch):
    monkeypatch.setattr(module, "_STARTS", 0)
    with pytest.raises(ValueError, match=r"must converge\. It did from none of 0 starts"):
        partition_graph(chain(30), 3, method="spectral", points="released")


def test_as_many_parts_as_nodes_are_refused():
    with pytest.raises(ValueError, match=r"`k` must be below the 4 nodes for the points 'released'\. Got 4"):
        partition_graph(chain(4), 4, method="spectral", points="released")


def test_a_graph_without_edges_is_refused():
    with pytest.raises(ValueError, match="must converge"):
        partition_graph(Graph([], [], 7), 3, method="spectral", points="released")


def clouds(each: int, centres: list[tuple[float, float]]) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 0.01, (each * len(centres), 2))
    return np.repeat(centres, each, axis=0) + noise


def test_clouds_are_found():
    labels = k_means(clouds(20, [(0, 0), (1, 0), (0, 1)]), 3).reshape(3, 20)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_clouds_of_more_points_than_the_sample_are_found():
    labels = k_means(clouds(4000, [(0, 0), (1, 0), (0, 1)]), 3, seed=1).reshape(3, 4000)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3


def test_equal_points_are_one_cluster_without_a_warning():
    assert len(set(k_means(np.ones((5, 2)), 3).tolist())) == 1
