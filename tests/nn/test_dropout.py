"""Dropout by name."""

import pytest
import torch

from gpnn.kernels import Operator
from gpnn.nn.dropout import MaskKey, drop_entries, drop_rows, drop_weights


def test_nothing_is_dropped_without_a_draw_or_a_probability():
    x = torch.ones(3, 2)
    operator = Operator.from_edges(torch.tensor([0]), torch.tensor([1]), None, (2, 2))
    for drop, value in ((drop_entries, x), (drop_rows, x), (drop_weights, operator)):
        assert drop(value, 0.5, None, 0) is value
        assert drop(value, 0.0, MaskKey(0), 0) is value


def test_whole_rows_go_together_and_the_rest_is_scaled():
    dropped = drop_rows(torch.ones(200, 5), 0.25, MaskKey(1), 0)
    assert (dropped == dropped[:, :1]).all()
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.15)


def test_stored_entries_meet_the_dense_mask():
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    rows, cols = x.nonzero(as_tuple=True)
    sparse = drop_weights(Operator.from_edges(rows, cols, x[rows, cols], (6, 5)), 0.4, MaskKey(2), 7)
    dense = drop_entries(x, 0.4, MaskKey(2), 7)
    assert sparse.weight.equal(dense[sparse.rows(), sparse.col.long()])


def test_a_random_draw_comes_from_the_global_generator():
    torch.manual_seed(0)
    first = [MaskKey.random(), MaskKey.random()]
    torch.manual_seed(0)
    assert [MaskKey.random(), MaskKey.random()] == first
    assert first[0] != first[1]


def test_gradients_pass_where_entries_are_kept():
    x = torch.ones(50, 4, requires_grad=True)
    out = drop_entries(x, 0.5, MaskKey(0), 0)
    out.sum().backward()
    assert x.grad.equal(out.detach())
