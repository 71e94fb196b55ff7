"""The released clustering: what its code computes, from a start that the seed gives."""

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.cluster import KMeans

import gpnn.partition.released_spectral as module
from gpnn import Graph, load_dataset, partition_graph
from tests.oracle.small_graphs import chain


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


def test_cora_is_nearly_one_part_and_the_start_decides_how_nearly():
    data = load_dataset("cora")
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
