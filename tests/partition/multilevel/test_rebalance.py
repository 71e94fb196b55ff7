import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.multilevel.rebalance import assign_isolated, fill_empty


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
