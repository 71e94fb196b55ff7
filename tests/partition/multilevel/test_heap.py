from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.partition.multilevel.heap import clear, drop, make_heap, put, take

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
            put(heap, step[1], step[2])
            slow[step[1]] = step[2]
        elif step[0] == "drop":
            drop(heap, step[1])
            slow.pop(step[1], None)
        elif step[0] == "clear":
            clear(heap)
            slow.clear()
        elif slow:
            node = take(heap)
            assert slow.pop(node) == max([*slow.values(), heap.key[node]])
        assert heap.size[0] == len(slow)
        assert {node for node in range(10) if heap.place[node] >= 0} == set(slow)
        assert all(heap.node[heap.place[node]] == node and heap.key[node] == key for node, key in slow.items())
