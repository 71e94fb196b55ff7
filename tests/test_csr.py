"""Compressed rows against a stable argsort."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.csr import compress, connect, index_type, pointers


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40), st.integers(6, 9))
@settings(max_examples=60, deadline=None)
def test_compress_is_a_stable_sort_by_row(pairs: list[tuple[int, int]], num_rows: int) -> None:
    rows, columns = (np.array([pair[end] for pair in pairs], np.int64) for end in range(2))
    order = np.argsort(rows, kind="stable")
    made = compress(rows, columns, num_rows)
    assert made.ptr.tolist() == [int((rows < row).sum()) for row in range(num_rows + 1)]
    assert made.index.tolist() == columns[order].tolist()
    assert made.edge is not None
    assert made.edge.tolist() == order.tolist()


def test_compress_leaves_edges_out_when_they_are_not_requested() -> None:
    made = compress(np.array([1, 0]), np.array([3, 4]), 2, with_edge=False)
    assert made.edge is None
    assert made.index.tolist() == [4, 3]


def test_compress_of_nothing() -> None:
    made = compress(np.empty(0, np.int64), np.empty(0, np.int64), 2)
    assert made.ptr.tolist() == [0, 0, 0]
    assert len(made.index) == 0


def test_indices_are_as_narrow_as_their_bound_allows() -> None:
    assert compress(np.array([0]), np.array([7]), 1).index.dtype == np.int32
    assert compress(np.array([0]), np.array([2**31]), 1).index.tolist() == [2**31]
    assert index_type(2**31 - 1) is np.int32
    assert index_type(2**31) is np.int64


def test_connect_follows_long_paths() -> None:
    chain = np.arange(10_000)
    shuffled = np.random.default_rng(0).permutation(9_999)
    assert connect(chain[1:][shuffled], chain[:-1][shuffled], 10_000).max() == 0


def test_pointers_of_tensors_arrays_and_lists() -> None:
    for counts in (torch.tensor([2, 0, 3], dtype=torch.int32), np.array([2, 0, 3], np.int32), [2, 0, 3]):
        ptr = pointers(counts)
        assert ptr.tolist() == [0, 2, 2, 5]
        assert str(ptr.dtype).removeprefix("torch.") == "int64"
        assert isinstance(ptr, torch.Tensor) == isinstance(counts, torch.Tensor)
    assert pointers([]).tolist() == pointers(torch.empty(0, dtype=torch.int64)).tolist() == [0]
