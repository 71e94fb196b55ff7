import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.kernels import stream
from gpnn.partition.multilevel_hierarchy import (
    _draw,
    _grow,
    _pull,
    coarsen,
    contract,
    contract_parts,
    divide,
    drop_cut,
    extract,
    improve,
    number,
    partition_levels,
    refine_again,
)
from gpnn.partition.multilevel_level import loads, make_heap, sample_cut
from tests.oracle.levels import chain_level, divided_levels, level_of, levels, matrix_of, slow_cut


def test_levels_keep_their_weight_and_follow_each_other():
    levels, names = coarsen(chain_level(5000), 4, stream(0))
    sizes = [len(level.node_weight) for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert len(levels) == len(names) + 1 >= 2
    assert sizes[-1] <= 40 * 4
    for level, name, count in zip(levels[1:], names, sizes[1:]):
        assert level.node_weight.sum() == 5000
        assert len(np.unique(name)) == count == name.max() + 1


def test_clusters_stay_within_parts():
    level = chain_level(3000)
    parts = (np.arange(3000) // 7 % 4).astype(np.int32)
    levels, names = coarsen(level, 4, stream(0), parts)
    assert names
    for finer, coarser, name in zip(levels, levels[1:], names):
        coarse = contract_parts(parts, name, len(coarser.node_weight))
        assert np.array_equal(coarse[name], parts)
        assert sample_cut(coarser, coarse, 1)[0] == sample_cut(finer, parts, 1)[0]
        parts = coarse


def test_a_cycle_mends_a_bad_partition():
    level, labels = chain_level(3000), (np.arange(3000) // 50 % 4).astype(np.int32)
    cap = np.full((4, 1), 787)
    again = refine_again(level, labels, cap, stream(0))
    assert sample_cut(level, again, 1)[0] < sample_cut(level, labels, 1)[0]
    assert loads(level.node_weight, again, 4).max() <= 787


@settings(max_examples=60, deadline=None)
@given(divided_levels(3))
def test_a_graph_without_its_cut(divided):
    level, parts = divided
    inside = np.where(parts[:, None] == parts[None], matrix_of(level), 0)
    assert np.array_equal(matrix_of(drop_cut(level, parts)), inside)


def test_a_small_graph_is_its_own_coarsest():
    levels, names = coarsen(chain_level(100), 4, stream(0))
    assert (len(levels), names) == (1, [])


def test_a_long_chain_is_cut_where_it_should_be():
    level, state = chain_level(3000), stream(1)
    levels, names = coarsen(level, 5, state)
    prefer = np.ones(len(levels[-1].node_weight), np.int64)
    labels = partition_levels(levels, names, np.full((5, 1), 630), prefer, state)
    assert np.bincount(labels).max() <= 630
    assert slow_cut(matrix_of(level), labels) <= 16  # the least is 8
    assert levels == []


def test_improving_mends_balance_and_cut():
    labels = np.array([0] * 14 + [1] * 4 + [0] * 2, np.int32)
    cap = np.array([[11], [11]])
    improve(chain_level(20), labels, cap)
    assert (loads(np.ones((20, 1), np.int32), labels, 2) <= cap).all()
    assert slow_cut(matrix_of(chain_level(20)), labels) <= 4


def test_clusters_are_named_by_their_first_nodes():
    labels = np.array([4, 2, 4, 3, 2], np.int32)
    assert number(labels) == 3
    assert labels.tolist() == [0, 1, 0, 2, 1]


@settings(max_examples=60, deadline=None)
@given(divided_levels(4), st.booleans())
def test_the_coarse_graph_is_the_product_of_matrices(drawn, weighted):
    level, labels = drawn
    if not weighted:
        level = level._replace(edge_weight=np.empty(0, np.int32))
    labels %= len(labels)  # clusters are named by nodes
    count = number(labels)
    coarse = contract(level, labels, count)
    inside = np.eye(count, dtype=np.int64)[labels]  # [n, count]
    expected = inside.T @ matrix_of(level) @ inside
    np.fill_diagonal(expected, 0)
    assert (matrix_of(coarse) == expected).all()
    assert (coarse.node_weight == inside.T @ level.node_weight).all()
    assert len(coarse.neighbour) == np.count_nonzero(expected)  # each neighbour once


def test_entries_that_repeat_add_up():
    level = level_of(np.array([[0, 1], [1, 0]]))
    twice = level._replace(
        ptr=np.array([0, 2, 4]), neighbour=np.array([1, 1, 0, 0], np.int32), edge_weight=np.empty(0, np.int32)
    )
    assert matrix_of(contract(twice, np.array([0, 1], np.int32), 2)).tolist() == [[0, 2], [2, 0]]


@settings(max_examples=40, deadline=None)
@given(levels(), st.data())
def test_an_induced_graph_is_a_submatrix(level, data):
    size = len(level.node_weight)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    inner = extract(level, chosen)
    assert (matrix_of(inner) == matrix_of(level)[chosen][:, chosen]).all()
    assert (inner.node_weight == level.node_weight[chosen]).all()


def test_a_chain_is_divided_near_its_least_cut():
    """Three edges at least, six entries; one edge more where a part was grown in two pieces."""
    level = chain_level(32)
    for seed in range(5):
        labels = divide(level, np.full((4, 1), 9), np.ones(32, np.int64), 8, stream(seed))
        assert slow_cut(matrix_of(level), labels) in (6, 8)
        assert np.bincount(labels).max() <= 9


@settings(max_examples=40, deadline=None)
@given(levels(), st.integers(1, 6))
def test_labels_are_parts(level, num_parts):
    size = len(level.node_weight)
    labels = divide(level, np.full((num_parts, 1), 100), np.ones(size, np.int64), 2, stream(0))
    assert len(labels) == size
    assert not len(labels) or (labels.min() >= 0 and labels.max() < num_parts)


def test_growth_begins_at_the_preferred_node_and_stays_together():
    prefer = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    labels = _grow(chain_level(8), 3, prefer, make_heap(8), stream(0))
    assert labels.tolist() == [1, 1, 1, 1, 1, 0, 0, 0]


def test_only_preferred_nodes_are_drawn_while_there_are_any():
    labels, prefer = np.array([1, 1, 0, 1], np.int32), np.array([0, 3, 9, 1])
    drawn = [_draw(prefer, labels, stream(seed)) for seed in range(60)]
    assert set(drawn) == {1, 3}
    assert drawn.count(1) > drawn.count(3)
    assert {_draw(np.zeros(4, np.int64), labels, stream(seed)) for seed in range(60)} == {0, 1, 3}


def test_the_pull_of_a_side():
    assert _pull(chain_level(3), np.array([0, 1, 1], np.int32), 1) == 0
    assert _pull(chain_level(3), np.array([0, 1, 0], np.int32), 1) == 2
