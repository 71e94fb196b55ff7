"""Rows of a state replaced by what a function makes of others, beside torch's own indexing."""

from __future__ import annotations

import pytest
import torch

from gpnn.engine.block import Block
from gpnn.engine.update_rows import update_rows
from gpnn.kernels import Operator


def block_of(inputs: torch.Tensor | slice, num_rows: int) -> Block:
    none = torch.empty(0, dtype=torch.int64)
    operator = Operator.from_edges(none, none, None, (num_rows, num_rows))
    return Block(inputs, num_rows, (operator,), (None,), (none,), None)


BLOCKS = {
    "scattered": block_of(torch.tensor([4, 1, 6, 2]), 2),
    "contiguous": block_of(slice(2, 6), 3),
    "all that it reads": block_of(torch.tensor([5, 0]), 2),
    "every row, moved": block_of(torch.tensor([6, 5, 4, 3, 2, 1, 0]), 7),
    "every row": block_of(slice(0, 7), 7),
}


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("repeats", [1, 3])
def test_values_and_gradients(name: str, repeats: int) -> None:
    block, random = BLOCKS[name], torch.Generator().manual_seed(0)
    state = torch.randn(7, 3, generator=random, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 3, generator=random, dtype=torch.float64, requires_grad=True)

    def advance(inputs: torch.Tensor) -> torch.Tensor:
        return ((inputs + inputs.sum(0)) @ weight).tanh()[: block.num_rows]

    def ours(state: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        for _ in range(repeats):
            state = update_rows(state, block, advance)
        return state

    def theirs(state: torch.Tensor) -> torch.Tensor:
        every = torch.arange(7)
        for _ in range(repeats):
            state = state.index_copy(0, every[block.rows], advance(state[block.inputs]))
        return state

    assert torch.equal(ours(state, weight), theirs(state))
    assert torch.autograd.gradcheck(ours, (state, weight))


def test_a_state_without_a_gradient() -> None:
    weight = torch.ones(3, requires_grad=True)
    update_rows(torch.ones(7, 3), BLOCKS["scattered"], lambda rows: rows[:2] * weight).sum().backward()
    assert torch.equal(weight.grad, torch.full((3,), 2.0))


def test_rows_that_are_not_used() -> None:
    state = torch.ones(7, 3, requires_grad=True)
    update_rows(state, BLOCKS["scattered"], lambda rows: torch.zeros(2, 3)).sum().backward()
    assert state.grad.sum(1).tolist() == [3, 0, 3, 3, 0, 3, 3]


def test_what_others_hold_is_left_alone() -> None:
    state = torch.randn(7, 3, requires_grad=True)
    out = update_rows(state * 1, BLOCKS["scattered"], lambda rows: rows[:2] * 2)
    before, grad = out.detach().clone(), torch.ones(7, 3)
    for _ in range(2):
        out.backward(grad, retain_graph=True)
    assert torch.equal(out, before)
    assert torch.equal(grad, torch.ones(7, 3))
    assert state.grad.sum(1).tolist() == [6, 12, 6, 6, 12, 6, 6]
