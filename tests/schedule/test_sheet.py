import numpy as np
import pytest

from gpnn import Graph
from gpnn.schedule.sheet import layout
from tests.oracle.small_graphs import chain, ring


def distances(positions):
    return np.linalg.norm(positions[:, None] - positions[None], axis=-1)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_chain_is_a_line_from_left_to_right(size):
    positions = layout(chain(size))
    assert np.allclose(positions[:, 0], np.arange(size), atol=0.01)
    assert np.allclose(positions[:, 1], 0, atol=0.01)


def test_a_ring_is_a_circle():
    positions = layout(ring(9))
    reach = np.linalg.norm(positions - positions.mean(0), axis=1)
    assert np.allclose(reach, reach[0], rtol=0.02)
    sides = distances(positions)[np.arange(9), (np.arange(9) + 1) % 9]
    assert np.allclose(sides, sides[0], rtol=0.02)


def test_components_lie_side_by_side():
    graph = Graph([0, 3, 4], [1, 4, 5], num_nodes=6)  # 3 – 4 – 5, 0 – 1, and 2 alone
    across = layout(graph)[:, 0]
    assert across[[3, 4, 5]].max() < across[[0, 1]].min()
    assert across[[0, 1]].max() < across[2]


def test_the_same_seed_gives_the_same_picture():
    assert np.array_equal(layout(ring(7), seed=3), layout(ring(7), seed=3))


def test_parallel_edges_and_loops_change_nothing():
    doubled = Graph([0, 0, 1, 1, 2], [1, 1, 2, 1, 2], num_nodes=3)
    assert np.allclose(np.abs(layout(doubled)), np.abs(layout(chain(3))), atol=0.01)
