"""Operator: rows, columns and weights, and the same entries transposed."""

import pytest
import torch

from gpnn.kernels import Operator
from gpnn.kernels.aggregate import aggregate

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


BACK_AND_FORTH = torch.cat([ROWS, COLS]), torch.cat([COLS, ROWS])  # a multigraph with a self-loop, rows unsorted


def test_a_symmetric_operator_is_its_own_transpose():
    rows, cols = (torch.cat([ends, torch.tensor([1])]) for ends in BACK_AND_FORTH)
    operator = Operator.from_edges(rows, cols, None, (4, 4))
    assert not bool((operator.col.diff() >= 0).all())
    assert operator.t_ptr is operator.ptr
    assert operator.t_row is operator.col
    moved = operator.to("cpu")
    assert moved.t_row is moved.col
    assert moved.num_bytes == (5 + 11 / 2) * 8
    ones = torch.ones(11)
    transposed = operator.with_weight(ones * 2)
    assert dense(operator.t_ptr, operator.t_row, ones, (4, 4)).equal(dense(operator.ptr, operator.col, ones, (4, 4)).T)
    assert transposed.t_row[transposed.t_entry.long().argsort()].equal(operator.rows().int())


@pytest.mark.parametrize(
    ("rows", "cols", "shape"),
    [
        ([0, 1, 2], [1, 2, 0], (3, 3)),  # every degree in is a degree out
        ([0, 1, 0, 1], [1, 0, 0, 0], (2, 2)),
        ([0, 0, 1], [1, 1, 0], (2, 2)),  # twice there, once back
        ([0, 1], [1, 0], (2, 3)),
    ],
)
def test_others_are_not(rows, cols, shape):
    operator = Operator.from_edges(torch.tensor(rows), torch.tensor(cols), None, shape)
    assert operator.t_row is not operator.col
    ones = torch.ones(len(rows))
    assert dense(operator.t_ptr, operator.t_row, ones, shape[::-1]).T.equal(
        dense(operator.ptr, operator.col, ones, shape)
    )


def test_weights_need_a_transpose_of_their_own():
    operator = Operator.from_edges(*BACK_AND_FORTH, torch.arange(10.0), (4, 4))
    assert operator.t_row is not operator.col
    assert operator.t_entry.numel() == 10


@pytest.mark.parametrize("how", ["sum", "max", "min"])
def test_gradients_of_a_symmetric_operator(how):
    random = torch.Generator().manual_seed(0)
    ends = torch.randint(12, (2, 40), generator=random)
    operator = Operator.from_edges(torch.cat([ends[0], ends[1]]), torch.cat([ends[1], ends[0]]), None, (12, 12))
    assert operator.t_row is operator.col
    x = torch.randn(12, 3, dtype=torch.float64, generator=random, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rows: aggregate(operator, rows, how), x)


def test_indices_are_narrow():
    operator = Operator.from_edges(ROWS, COLS, None, (3, 4))
    assert operator.col.dtype == operator.t_row.dtype == operator.t_entry.dtype == torch.int32


def test_an_operator_without_entries():
    nothing = torch.empty(0, dtype=torch.int64)
    operator = Operator.from_edges(nothing, nothing, None, (2, 3))
    assert operator.ptr.tolist() == [0, 0, 0]
    assert operator.t_ptr.tolist() == [0, 0, 0, 0]


def test_a_square_operator_is_split_without_a_copy():
    operator = Operator.from_edges(ROWS, COLS, WEIGHT, (4, 4))
    inside, outside = operator.by_column
    assert (inside.col is operator.col, inside.weight is operator.weight) == (True, True)
    assert (outside.shape, outside.num_entries) == ((4, 0), 0)
