"""Sums and dot products along edges against numpy, and their gradients."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from gpnn.kernels import Operator
from gpnn.kernels.edge_weights import dot_edges, sum_edges

ROWS = torch.tensor([2, 0, 2, 1, 2, 0])
COLS = torch.tensor([1, 4, 1, 0, 3, 2])  # an entry twice; row 3 and column 5 have none
SHAPE = (4, 6)


@pytest.fixture
def operator() -> Operator:
    return Operator.from_edges(ROWS, COLS, None, SHAPE)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def test_the_sum_of_each_row(operator: Operator) -> None:
    weight, x = draw(6), draw(6, 3)
    expected = np.zeros((4, 3))
    for row, col, each in zip(operator.rows().tolist(), operator.col.tolist(), weight.tolist()):
        expected[row] += each * x[col].numpy()
    assert np.allclose(sum_edges(operator, weight, x).numpy(), expected, rtol=0, atol=1e-14)


def test_the_dot_product_of_each_entry(operator: Operator) -> None:
    x, y = draw(4, 3), draw(6, 3)
    expected = [float(x[row] @ y[col]) for row, col in zip(operator.rows().tolist(), operator.col.tolist())]
    assert dot_edges(operator, x, y).tolist() == pytest.approx(expected, abs=1e-14)
    assert dot_edges(operator, x.T.contiguous().T, y).tolist() == pytest.approx(expected, abs=1e-14)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    weight, x, y = draw(6), draw(4, 3), draw(6, 3)
    there = operator.to("cuda")
    monkeypatch.setattr("gpnn.kernels.edge_weights._CHUNK", 6)  # two entries at a time
    torch.testing.assert_close(dot_edges(there, x.cuda(), y.cuda()).cpu(), dot_edges(operator, x, y))
    torch.testing.assert_close(sum_edges(there, weight.cuda(), y.cuda()).cpu(), sum_edges(operator, weight, y))


def test_gradients(operator: Operator) -> None:
    weight, rows, columns = (each.requires_grad_() for each in (draw(6), draw(4, 3), draw(6, 3)))
    assert gradcheck(lambda w, x: sum_edges(operator, w, x), (weight, columns))
    assert gradcheck(lambda x, y: dot_edges(operator, x, y), (rows, columns))
    assert gradcheck(lambda w: sum_edges(operator, w, columns.detach()), (weight,))


def test_an_operator_without_entries() -> None:
    none = Operator.from_edges(ROWS[:0], COLS[:0], None, SHAPE)
    assert sum_edges(none, torch.empty(0), torch.ones(6, 2)).tolist() == [[0, 0]] * 4
    assert dot_edges(none, torch.ones(4, 2), torch.ones(6, 2)).shape == (0,)
