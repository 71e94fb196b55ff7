import numpy as np
import pytest
import torch

from gpnn import Graph, Partition
from gpnn.report.layout import MAX_NODES, distinct_pairs, force_layout, relax
from tests.oracle.relax import slow_relax

CHAIN = Graph([0, 1, 2, 3], [1, 2, 3, 4], num_nodes=5).to_undirected()


def two_cliques(size: int) -> Graph:
    pairs = [(base + a, base + b) for base in (0, size) for a in range(size) for b in range(a)]
    src, dst = zip(*pairs, (0, size))
    return Graph(src, dst, num_nodes=2 * size)


def test_the_kernel_is_the_slow_one():
    random = np.random.default_rng(0)
    start, weight, mass = random.standard_normal((12, 2)), random.random(11), 0.5 + random.random(12)
    src, dst = np.arange(11), np.arange(1, 12)
    places = start.copy()
    relax(places, src, dst, weight, mass, 15, 0.1)
    expected = slow_relax(start, src, dst, weight, mass, steps=15, gravity=0.1)
    np.testing.assert_allclose(places, expected, rtol=1e-9, atol=1e-9)


def test_heavy_edges_are_short():
    weight = torch.tensor([1.0, 0.05])
    places = force_layout(Graph([0, 1], [1, 2], num_nodes=3, edge_weight=weight))
    lengths = np.hypot(*(places[[0, 1]] - places[[1, 2]]).T)
    assert lengths[0] < lengths[1]


def test_a_dense_graph_does_not_fly_apart():
    src, dst = np.triu(np.ones((60, 60)), 1).nonzero()
    places = force_layout(Graph(src, dst, num_nodes=60))
    distance = np.hypot(*(places - places.mean(0)).T)
    assert distance.max() < 4 * np.median(distance)


def test_neighbours_lie_closer_than_strangers():
    places = force_layout(two_cliques(15), seed=1)
    centres = places[:15].mean(0), places[15:].mean(0)
    spread = max(np.hypot(*(places[:15] - centres[0]).T).max(), np.hypot(*(places[15:] - centres[1]).T).max())
    assert np.hypot(*(centres[0] - centres[1])) > spread


def test_the_same_seed_gives_the_same_places():
    graph, part = two_cliques(15), Partition([0] * 15 + [1] * 15, num_parts=2)
    assert np.array_equal(force_layout(graph, part, 3), force_layout(graph, part, 3))
    assert not np.array_equal(force_layout(graph, part, 3), force_layout(graph, part, 4))


def test_a_graph_without_edges_is_laid_out():
    places = force_layout(Graph([], [], num_nodes=40))
    assert np.isfinite(places).all()
    assert len(np.unique(places, axis=0)) == 40


def test_too_large_is_refused():
    with pytest.raises(ValueError, match=r"at most 3000 nodes. Got 3001\."):
        force_layout(Graph([0], [1], num_nodes=MAX_NODES + 1))


def test_pairs_are_distinct_and_without_loops():
    graph = Graph([0, 1, 0, 2], [1, 0, 1, 2], num_nodes=3)
    assert [pairs.tolist() for pairs in distinct_pairs(graph)] == [[0], [1]]
