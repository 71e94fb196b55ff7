import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition import multilevel_cluster as module
from gpnn.partition.kernels import stream
from gpnn.partition.multilevel_cluster import _bit_reversal, _coprime, _list_long, _list_short, cluster
from tests.oracle.levels import chain_level, level_of, levels


@settings(max_examples=60, deadline=None)
@given(levels(max_nodes=12, columns=2), st.integers(3, 9), st.integers(0, 50))
def test_no_cluster_outgrows_its_limit(level, limit, seed):
    labels = cluster(level, np.array([limit, limit]), 3, stream(seed))
    weight = np.zeros((len(labels), 2), np.int64)
    np.add.at(weight, labels, level.node_weight)
    assert (weight <= limit).all()


def test_cliques_become_clusters():
    clique = 5 * (np.ones((4, 4), np.int64) - np.eye(4, dtype=np.int64))
    matrix = np.kron(np.eye(3, dtype=np.int64), clique)
    matrix[3, 4] = matrix[4, 3] = 1
    for seed in range(5):
        labels = cluster(level_of(matrix), np.array([4]), 3, stream(seed)).reshape(3, 4)
        assert (labels == labels[:, :1]).all()
        assert len(np.unique(labels)) == 3


def test_nodes_without_neighbours_join_each_other():
    labels = cluster(level_of(np.zeros((7, 7), np.int64)), np.array([3]), 2, stream(0))
    assert sorted(np.bincount(labels, minlength=7).tolist()) == [0, 0, 0, 0, 1, 3, 3]


def test_leaves_of_a_full_hub_join_each_other():
    """The hub weighs as much as a cluster may, so its 9 leaves pair up by threes."""
    star = np.zeros((10, 10), np.int64)
    star[0, 1:] = star[1:, 0] = 1
    weight = np.array([[3]] + [[1]] * 9)
    labels = cluster(level_of(star, weight), np.array([3]), 2, stream(0))
    assert sorted(np.bincount(labels)[np.bincount(labels) > 0].tolist()) == [1, 3, 3, 3]


def test_no_round_leaves_every_node_with_neighbours_alone():
    assert cluster(chain_level(5), np.array([1]), 3, stream(0)).tolist() == [0, 1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), max_size=24), st.integers(0, 6), st.booleans())
def test_short_and_long_rows_are_counted_alike(entries, own, weighted):
    row = np.array([label for label, _ in entries], np.int32)
    edge_weight = np.array([value for _, value in entries] if weighted else [], np.int32)
    found = []
    for count, scratch in ((_list_short, ()), (_list_long, (np.zeros(7, np.int32),))):
        near, weight = np.empty(30, np.int32), np.empty(30, np.int32)
        length = count(row, edge_weight, own, near, weight, *scratch)
        found.append(list(zip(near[:length].tolist(), weight[:length].tolist())))
        assert not scratch or not scratch[0].any()
    assert found[0] == found[1]
    assert found[0][0][0] == own
    for label, total in found[0]:
        assert total == sum(value if weighted else 1 for other, value in entries if other == label)


def test_chunks_are_visited_once_each():
    assert sorted(_bit_reversal().tolist()) == list(range(module._CHUNK))
    for bound in (1, 2, 12, 35):
        step = _coprime(bound, stream(3))
        assert sorted((i * step) % bound for i in range(bound)) == list(range(bound))


def test_several_chunks_of_a_long_chain_shrink():
    size = 3 * module._CHUNK + 7
    labels = cluster(chain_level(size), np.array([16]), 3, stream(1))
    assert len(np.unique(labels)) < size / 2
    assert np.bincount(labels).max() <= 16
