"""What every step that moves nodes keeps: bounds, loads, and (but for balance) the cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.multilevel_level import loads, make_heap, sample_cut
from gpnn.partition.multilevel_refine import (
    assign_isolated,
    best_move,
    fill_empty,
    fm_bisection,
    fm_refine,
    propagate_labels,
    rebalance,
)
from tests.oracle.levels import chain_level, divided_levels, level_of, matrix_of, slow_cut

STEPS = {
    "propagate_labels": lambda level, labels, load, cap, heap: propagate_labels(level, labels, load, cap, 5),
    "fm_refine": lambda level, labels, load, cap, heap: fm_refine(level, labels, load, cap, heap, 3, 50),
    "fm_bisection": lambda level, labels, load, cap, heap: fm_bisection(level, labels, load, cap, heap, 3),
}


@pytest.mark.parametrize("name", STEPS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.thorough
def test_the_cut_never_grows_and_bounds_hold(name, data):
    num_parts = 2 if name == "fm_bisection" else 3
    level, labels = data.draw(divided_levels(num_parts))
    load = loads(level.node_weight, labels, num_parts)
    cap = np.maximum(load, data.draw(st.integers(1, 12)))
    heap, before = make_heap(len(labels)), sample_cut(level, labels, 1)[0]
    STEPS[name](level, labels, load, cap, heap)
    assert sample_cut(level, labels, 1)[0] <= before
    assert (load == loads(level.node_weight, labels, num_parts)).all()
    assert (load <= cap).all()
    assert heap.size[0] == 0


@pytest.mark.parametrize("name", STEPS)
def test_a_node_on_the_wrong_side_comes_back(name):
    level, labels = chain_level(6), np.array([0, 1, 0, 1, 1, 1], np.int32)
    load = loads(level.node_weight, labels, 2)
    STEPS[name](level, labels, load, np.array([[4], [4]]), make_heap(6))
    assert sample_cut(level, labels, 1)[0] == 2


@pytest.mark.parametrize(("name", "cut_after"), [("propagate_labels", 8), ("fm_refine", 4), ("fm_bisection", 4)])
def test_only_local_search_crosses_a_hill(name, cut_after):
    """A pair of nodes on the wrong side: moving either alone gains nothing, moving both gains."""
    matrix = np.zeros((8, 8), np.int64)
    for u, v, weight in [(0, 1, 3), (1, 2, 3), (0, 2, 3), (5, 6, 3), (6, 7, 3), (5, 7, 3), (3, 4, 3), (2, 3, 2),
                         (2, 4, 2), (4, 5, 1), (3, 5, 1)]:  # fmt: skip
        matrix[u, v] = matrix[v, u] = weight
    level, labels = level_of(matrix), np.array([0, 0, 0, 1, 1, 1, 1, 1], np.int32)
    load = loads(level.node_weight, labels, 2)
    STEPS[name](level, labels, load, np.array([[5], [5]]), make_heap(8))
    assert sample_cut(level, labels, 1)[0] == cut_after


@settings(max_examples=60, deadline=None)
@given(divided_levels(3), st.data())
def test_the_best_move_against_all_moves(drawn, data):
    level, labels = drawn
    matrix, load = matrix_of(level), loads(level.node_weight, labels, 3)
    cap = np.full((3, 1), data.draw(st.integers(1, 20)))
    node = data.draw(st.integers(0, len(labels) - 1))
    score = np.zeros(3, np.int64)
    target, gain = best_move(level, labels, load, cap, score, node, 0)
    assert not score.any()
    gains = {}
    for part in range(3):
        joined = matrix[node, labels == part].sum()
        if part != labels[node] and joined and load[part, 0] + level.node_weight[node, 0] <= cap[part, 0]:
            moved = labels.copy()
            moved[node] = part
            gains[part] = (slow_cut(matrix, labels) - slow_cut(matrix, moved)) // 2
    assert (target in gains and gain == gains[target] == max(gains.values())) if gains else target == -1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_balance_brings_unit_weights_under_any_bound_that_can_be(data):
    level, labels = data.draw(divided_levels(3))
    level = level._replace(node_weight=np.ones_like(level.node_weight))
    cap = np.full((3, 1), -(-len(labels) // 3) + data.draw(st.integers(0, 2)))
    load = loads(level.node_weight, labels, 3)
    rebalance(level, labels, load, cap, make_heap(len(labels)))
    assert (load <= cap).all()
    assert (load == loads(level.node_weight, labels, 3)).all()


def test_balance_moves_the_node_that_costs_least():
    """Nodes 0 to 3 in part 0, bound 3: node 3, at the boundary, moves and costs nothing."""
    level, labels = chain_level(6), np.array([0, 0, 0, 0, 1, 1], np.int32)
    rebalance(level, labels, loads(level.node_weight, labels, 2), np.array([[3], [3]]), make_heap(6))
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]


def test_balance_of_a_second_column_comes_first():
    """Two labels in part 0, bound 1: one goes over, and a node without a label comes back for it."""
    weight = np.array([[1, 1], [1, 1], [1, 0], [1, 0]])
    level, labels = level_of(np.zeros((4, 4), np.int64), weight), np.array([0, 0, 1, 1], np.int32)
    cap = np.array([[2, 1], [2, 1]])
    load = loads(level.node_weight, labels, 2)
    rebalance(level, labels, load, cap, make_heap(4))
    assert (load <= cap).all()


def test_balance_leaves_what_no_single_node_can_mend():
    level = level_of(np.zeros((2, 2), np.int64), np.array([[5], [5]]))
    labels = np.array([0, 0], np.int32)
    load = loads(level.node_weight, labels, 2)
    rebalance(level, labels, load, np.array([[4], [4]]), make_heap(2))
    assert load.tolist() == [[10], [0]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30))
def test_free_nodes_make_the_largest_part_as_small_as_can_be(nodes):
    labels = np.array([label for label, _ in nodes], np.int32)
    weight = np.array([[0 if free else 1] for _, free in nodes], np.int32)
    fixed = np.bincount(labels[weight[:, 0] > 0], minlength=4)
    before = labels.copy()
    assign_isolated(labels, weight, 4)
    assert (labels == before)[weight[:, 0] > 0].all()
    assert np.bincount(labels, minlength=4).max() == max(fixed.max(), -(-len(nodes) // 4))


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=5, max_size=20))
def test_no_part_stays_empty(labels):
    labels = np.array(labels, np.int32)
    before = len(np.unique(labels))
    moved = labels.copy()
    fill_empty(moved, 5)
    assert len(np.unique(moved)) == 5
    assert (moved != labels).sum() == 5 - before
