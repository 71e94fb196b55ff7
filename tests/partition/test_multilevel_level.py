import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.multilevel_level import clear, fits, loads, make_heap, pop, push, remove, sample_cut, shift
from tests.oracle.levels import chain_level, divided_levels, matrix_of, slow_cut, slow_loads


@settings(max_examples=50, deadline=None)
@given(divided_levels(3))
def test_cut_and_loads_against_slow_counts(drawn):
    level, labels = drawn
    assert sample_cut(level, labels, 1)[0] == slow_cut(matrix_of(level), labels)
    assert loads(level.node_weight, labels, 3).tolist() == slow_loads(level.node_weight, labels, 3).tolist()


def test_entries_without_weights_weigh_one():
    level = chain_level(4)._replace(edge_weight=np.empty(0, np.int32))
    assert sample_cut(level, np.array([0, 0, 1, 1], np.int32), 1)[0] == 2


def test_every_second_row_is_a_sample():
    assert sample_cut(chain_level(4), np.array([0, 1, 1, 1], np.int32), 2) == (1, 3)  # rows 0 and 2


def test_room_is_asked_for_in_every_column_from_the_first():
    load, cap = np.array([[3, 1]]), np.array([[4, 1]])
    weight = np.array([[1, 0], [1, 1], [2, 0]], np.int32)
    assert [fits(load, cap, 0, weight, node, 0) for node in range(3)] == [True, False, False]
    assert fits(load, cap, 0, weight, 2, 1)  # column 0 does not count


def test_a_shift_keeps_the_sum():
    load = np.array([[3, 1], [0, 0]])
    shift(load, np.array([[2, 1]], np.int32), 0, 0, 1)
    assert load.tolist() == [[1, 0], [2, 1]]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), st.integers(-5, 5)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("take")),
        st.tuples(st.just("clear")),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS)
def test_it_does_what_a_dictionary_does(steps):
    heap, slow = make_heap(10), {}
    for step in steps:
        if step[0] == "put":
            push(heap, step[1], step[2])
            slow[step[1]] = step[2]
        elif step[0] == "drop":
            remove(heap, step[1])
            slow.pop(step[1], None)
        elif step[0] == "clear":
            clear(heap)
            slow.clear()
        elif slow:
            node = pop(heap)
            assert slow.pop(node) == max([*slow.values(), heap.key[node]])
        assert heap.size[0] == len(slow)
        assert {node for node in range(10) if heap.place[node] >= 0} == set(slow)
        assert all(heap.node[heap.place[node]] == node and heap.key[node] == key for node, key in slow.items())
