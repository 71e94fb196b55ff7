"""Rows read in another order, their gradients put back."""

import pytest
import torch

from gpnn.engine.rows import permute_rows, read_rows

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def shuffled(num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(0))
    return order, order.argsort()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_every_type(dtype):
    state = torch.arange(60_000 * 5).view(-1, 5).to(dtype)  # past a core's cache, so that rows are asked for early
    rows = torch.randint(60_000, (100,), generator=torch.Generator().manual_seed(1))
    assert torch.equal(read_rows(state, rows), state[rows])
    assert torch.equal(read_rows(state.T.contiguous().T, rows), state[rows])


def test_a_permutation_and_its_gradients():
    order, place = shuffled(7)
    state = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.equal(permute_rows(state, order, place), state[order])
    assert torch.equal(permute_rows(permute_rows(state, order, place), place, order), state)
    assert torch.autograd.gradcheck(lambda rows: permute_rows(rows, order, place), state)
    assert torch.autograd.gradgradcheck(lambda rows: permute_rows(rows, order, place), state)


def test_a_gradient_without_memory_of_its_own():
    order, place = shuffled(7)
    state = torch.zeros(7, 3, requires_grad=True)
    permute_rows(state, order, place).sum().backward()
    assert torch.equal(state.grad, torch.ones(7, 3))
