"""Operator: rows, columns and weights, and the same entries transposed."""

import torch

from gpnn.kernels import Operator

ROWS, COLS = torch.tensor([2, 0, 2, 2, 0]), torch.tensor([1, 3, 1, 0, 3])
WEIGHT = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])


def dense(ptr: torch.Tensor, index: torch.Tensor, weight: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    matrix = torch.zeros(shape)
    for row in range(shape[0]):
        for entry in range(int(ptr[row]), int(ptr[row + 1])):
            matrix[row, int(index[entry])] += weight[entry]
    return matrix


def test_holds_the_matrix_and_its_transpose():
    operator = Operator.from_edges(ROWS, COLS, WEIGHT, (3, 4))
    expected = torch.zeros(3, 4).index_put_((ROWS, COLS), WEIGHT, accumulate=True)
    assert dense(operator.ptr, operator.col, operator.weight, (3, 4)).equal(expected)
    transposed = operator.weight[operator.t_entry.long()]
    assert dense(operator.t_ptr, operator.t_row, transposed, (4, 3)).equal(expected.T)
    assert operator.rows().tolist() == [0, 0, 2, 2, 2]
    assert operator.num_entries == 5


def test_from_csr_equals_from_edges():
    operator = Operator.from_edges(ROWS, COLS, WEIGHT, (3, 4))
    again = Operator.from_csr(operator.ptr, operator.col, operator.weight, (3, 4))
    for name in ("ptr", "col", "weight", "t_ptr", "t_row", "t_entry"):
        assert getattr(again, name).equal(getattr(operator, name))


def test_other_weights_share_the_entries():
    operator = Operator.from_edges(ROWS, COLS, WEIGHT, (3, 4))
    bare = operator.with_weight(None)
    assert bare.weight is None
    assert bare.col is operator.col
    assert operator.num_bytes == bare.num_bytes + 5 * (4 + 4)  # weights, and which of them a transposed entry has
    again = bare.with_weight(WEIGHT)
    assert again.t_entry.equal(operator.t_entry)
    assert again.t_entry.dtype == operator.t_entry.dtype


def test_entries_without_weights_are_found_when_asked_for():
    weighted = Operator.from_edges(ROWS, COLS, WEIGHT, (3, 4))
    bare = Operator.from_edges(ROWS, COLS, None, (3, 4))
    assert not bare.t_entry.numel()
    assert bare.entry_of.equal(weighted.entry_of)
    assert weighted.entry_of is weighted.t_entry


def test_indices_are_narrow():
    operator = Operator.from_edges(ROWS, COLS, None, (3, 4))
    assert operator.col.dtype == operator.t_row.dtype == operator.t_entry.dtype == torch.int32


def test_an_operator_without_entries():
    nothing = torch.empty(0, dtype=torch.int64)
    operator = Operator.from_edges(nothing, nothing, None, (2, 3))
    assert operator.ptr.tolist() == [0, 0, 0]
    assert operator.t_ptr.tolist() == [0, 0, 0, 0]
