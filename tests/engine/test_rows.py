"""Rows permuted, moved and updated, beside torch's own indexing, gradients included."""

from __future__ import annotations

import pytest
import torch

from gpnn.engine.block import Block
from gpnn.engine.rows import add_rows, permute_rows, read_rows, take_rows, update_rows, write_rows
from gpnn.kernels import Operator

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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("num_rows", [20, 60_000])
def test_rows_are_put_taken_and_added_to(dtype, contiguous, num_rows):
    random = torch.Generator().manual_seed(2)
    rows = torch.randperm(num_rows, generator=random)[: num_rows // 2]
    ours, values = (torch.randn(n, 5, generator=random).to(dtype) for n in (num_rows, len(rows)))
    ours = ours if contiguous else ours.T.contiguous().T
    theirs = ours.clone()
    write_rows(ours, rows, values)
    theirs[rows] = values
    assert torch.equal(ours, theirs)
    add_rows(ours, rows, values[:1].expand(len(rows), 5))
    theirs[rows] += values[:1]
    assert torch.equal(ours, theirs)
    add_rows(ours, rows, None)
    assert torch.equal(take_rows(ours, rows), theirs[rows])
    theirs[rows] = 0
    assert torch.equal(ours, theirs)


def test_contiguous_rows():
    state = torch.arange(10.0).view(5, 2)
    write_rows(state, slice(0, 2), torch.ones(2, 2))
    add_rows(state, slice(1, 3), torch.ones(2, 2))
    assert take_rows(state, slice(1, 3)).tolist() == [[2, 2], [5, 6]]
    assert state.tolist() == [[1, 1], [0, 0], [0, 0], [6, 7], [8, 9]]


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
