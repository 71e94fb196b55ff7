import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.multilevel.contract import contract, number
from tests.oracle.levels import divided_levels, level_of, matrix_of


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
