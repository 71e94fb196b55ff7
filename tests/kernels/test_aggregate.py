"""Aggregation against a slow oracle, values and gradients."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from gpnn.kernels import AGGREGATORS, Operator, aggregate
from gpnn.kernels.aggregate import dot_edges, sum_edges
from tests.oracle.aggregate import aggregate_gradient, aggregate_rows


@st.composite
def problems(draw: st.DrawFn):
    """Entries (multi-edges, self-loops and empty rows occur), weights or None, and distinct values of both signs."""
    num_rows, num_cols, width = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(1, 3))
    entry = st.tuples(st.integers(0, num_rows - 1), st.integers(0, num_cols - 1))
    entries = draw(st.lists(entry, max_size=14))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weight = random.normal(size=len(entries)) if draw(st.booleans()) else None
    rows, cols = (np.array([pair[side] for pair in entries], np.int64) for side in (0, 1))
    return rows, cols, weight, random.normal(size=(num_cols, width)), num_rows, random


@pytest.mark.parametrize("how", AGGREGATORS)
@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_agrees_with_the_oracle(how, problem):
    rows, cols, weight, x, num_rows, random = problem
    by_hand = weight if weight is not None else np.ones(len(rows))
    operator = _operator(rows, cols, weight, (num_rows, len(x)))
    inputs = torch.tensor(x, requires_grad=True)
    out = aggregate(operator, inputs, how, fill=7.0)
    expected = aggregate_rows(rows, cols, by_hand, x, num_rows, how, fill=7.0)
    np.testing.assert_allclose(out.detach().numpy(), expected, atol=1e-12)
    grad = random.normal(size=expected.shape)
    out.backward(torch.from_numpy(grad))
    gradient = aggregate_gradient(rows, cols, by_hand, x, grad, how)
    np.testing.assert_allclose(inputs.grad.numpy(), gradient, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(problem=problems())
def test_a_factor_of_each_row_is_the_same_as_one_of_its_entries(problem):
    rows, cols, weight, x, num_rows, random = problem
    factor = torch.from_numpy(random.normal(size=num_rows))
    by_hand = factor.numpy()[rows] * (np.ones(len(rows)) if weight is None else weight)
    scaled = replace(_operator(rows, cols, weight, (num_rows, len(x))), row_scale=factor)
    grad = torch.from_numpy(random.normal(size=(num_rows, x.shape[1])))
    results = []
    for operator in (scaled, _operator(rows, cols, by_hand, (num_rows, len(x)))):
        inputs = torch.tensor(x, requires_grad=True)
        out = aggregate(operator, inputs)
        results.append([out, *torch.autograd.grad(out, inputs, grad)])
    torch.testing.assert_close(*results, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("how", AGGREGATORS)
def test_gradcheck(how):
    random = np.random.default_rng(0)
    rows, cols = random.integers(0, 6, 20), random.integers(0, 5, 20)
    operator = _operator(rows, cols, random.normal(size=20), (6, 5))
    x = torch.tensor(random.normal(size=(5, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: aggregate(operator, x, how), x)


@pytest.mark.parametrize("how", AGGREGATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_keeps_the_type_and_sums_halves_in_single_precision(how, dtype):
    random = torch.Generator().manual_seed(0)
    rows, cols = torch.zeros(1000, dtype=torch.int64), torch.arange(1000)
    operator = Operator.from_edges(rows, cols, None, (1, 1000))
    x = (torch.rand(1000, 2, generator=random) + 1).to(dtype).requires_grad_()
    out = aggregate(operator, x, how)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == dtype
    exact = aggregate(operator, x.detach().double(), how)
    torch.testing.assert_close(out.detach(), exact.to(dtype), rtol=1e-6, atol=0)


def test_equal_extremes_send_the_gradient_once():
    operator = Operator.from_edges(torch.tensor([0, 0]), torch.tensor([0, 1]), None, (1, 2))
    x = torch.full((2, 1), 3.0, requires_grad=True)
    aggregate(operator, x, "max").backward()
    assert x.grad.tolist() == [[1.0], [0.0]]


def test_noncontiguous_rows_are_read_right():
    operator = Operator.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), None, (2, 2))
    x = torch.arange(6.0).view(3, 2).T  # [2, 3], strided
    assert aggregate(operator, x).equal(x[[1, 0]])


def test_refuses_unknown_names_and_wrong_shapes():
    operator = Operator.from_edges(torch.tensor([0]), torch.tensor([0]), None, (1, 2))
    with pytest.raises(ValueError, match=r"`how` must be one of sum, max, min\. Got 'mean'"):
        aggregate(operator, torch.ones(2, 1), "mean")
    with pytest.raises(ValueError, match=r"`x` must have 2 rows\. Got shape \[3, 1\]"):
        aggregate(operator, torch.ones(3, 1))


def _operator(rows, cols, weight, shape) -> Operator:
    weight = None if weight is None else torch.from_numpy(weight)
    return Operator.from_edges(torch.from_numpy(rows), torch.from_numpy(cols), weight, shape)


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
    monkeypatch.setattr(sys.modules["gpnn.kernels.aggregate"], "_CHUNK", 6)  # two entries at a time
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
