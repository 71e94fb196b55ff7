import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.kernels import stream
from gpnn.partition.multilevel.divide import _draw, _grow, _pull, divide, extract
from gpnn.partition.multilevel.level import make_heap
from tests.oracle.levels import chain_level, levels, matrix_of, slow_cut


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
