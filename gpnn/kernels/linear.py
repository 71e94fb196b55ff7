"""All steps of a block of a linear cell in one go; what held senders bring is summed once.

h ← (1 − α) (A h + diag · h) + α h₀: the gradient of a linear map needs no states, so that the backward pass takes
transposed steps alone.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.aggregate import sum_on_cpu
from gpnn.kernels.autograd import first_order
from gpnn.kernels.gated import wants_values
from gpnn.kernels.operator import Operator

MOST_BYTES = 1 << 27  # of a block's inputs on a CPU; a larger one goes step by step, and its operator need not be split


def linear_steps(
    operator: Operator,
    diagonal: Tensor | None,
    inputs: Tensor,
    repeat: int,
    initial: Tensor | None = None,
    alpha: float = 0.0,
) -> Tensor | None:
    """`repeat` steps of the first n of the rows h, while the others stay as they are, `[n, d]`.

    None where no kernel takes all steps in one go: on a GPU where the operator is not split, on a CPU in half precision
    and where a block is too large.

    Args:
        operator: A, the weighted adjacency, receivers by senders, `[n, m]`.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`.
        repeat: how many steps.
        initial: h₀, `[n, d]`, where α is not 0.
        alpha: probability α of the teleport.
    """
    if inputs.is_cuda:
        if operator.split is None:
            return None
    elif inputs.dtype.itemsize < 4 or inputs.numel() * inputs.element_size() > MOST_BYTES:
        return None
    found: Tensor = _LinearSteps.apply(operator, diagonal, repeat, alpha, inputs, initial if alpha else None)
    return found


class _LinearSteps(Function):
    @staticmethod
    def forward(
        ctx: Any,
        operator: Operator,
        diagonal: Tensor | None,
        repeat: int,
        alpha: float,
        inputs: Tensor,
        initial: Tensor | None,
    ) -> Tensor:
        ctx.map, ctx.repeat, ctx.alpha = _map(operator, diagonal, alpha, inputs), repeat, alpha
        state, others = inputs.detach().split([operator.shape[0], len(inputs) - operator.shape[0]])
        if not wants_values():
            return state.new_zeros(1, 1).expand_as(state)
        constant = ctx.map.constant(others.contiguous(), None if initial is None else initial.detach())
        state = state.contiguous()
        for _ in range(repeat):
            state = ctx.map.step(state, constant)
        return state

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad, total = grad.contiguous(), torch.zeros_like(grad)  # of what is added in all steps, `[n, d]`
        for _ in range(ctx.repeat):
            total += grad
            grad = ctx.map.step_back(grad)
        by_initial = ctx.alpha * total if ctx.needs_input_grad[5] else None
        return None, None, None, None, torch.cat([grad, ctx.map.send_back_held(total)]), by_initial


class _Map(Protocol):
    """A step, on one kind of device."""

    def constant(self, others: Tensor, initial: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """What each step adds: what held senders, `[m − n, d]`, bring, and α times the initial states, `[n, d]`."""

    def step(self, state: Tensor, constant: tuple[Tensor | None, Tensor | None]) -> Tensor:
        """The next states, `[n, d]`."""

    def step_back(self, grad: Tensor) -> Tensor:
        """The gradient of the states, `[n, d]`, by that of the next ones."""

    def send_back_held(self, grad: Tensor) -> Tensor:
        """The gradient of the held senders, `[m − n, d]`, by that of the next states of all steps, summed."""


def _map(operator: Operator, diagonal: Tensor | None, alpha: float, inputs: Tensor) -> _Map:
    row_scale, kept = operator.row_scale, 1 - alpha
    if alpha:
        wide = torch.promote_types(inputs.dtype, torch.float32)
        row_scale = inputs.new_ones(operator.shape[0], dtype=wide) if row_scale is None else row_scale
        row_scale, diagonal = (None if each is None else kept * each.to(wide) for each in (row_scale, diagonal))
    made = _OnGPU if inputs.is_cuda else _OnCPU
    return made(*operator.by_column, row_scale, diagonal, alpha)


class _OnCPU:
    def __init__(
        self, inside: Operator, outside: Operator, row_scale: Tensor | None, diagonal: Tensor | None, alpha: float
    ) -> None:
        self.inside, self.outside, self.row_scale, self.alpha = inside, outside, row_scale, alpha
        self.diagonal = None if diagonal is None else diagonal[:, None]

    def constant(self, others: Tensor, initial: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        held = _sum(self.outside, others) if self.outside.num_entries else None  # factors of rows aside
        return held, None if initial is None else self.alpha * initial

    def step(self, state: Tensor, constant: tuple[Tensor | None, Tensor | None]) -> Tensor:
        held, added = constant
        new = _sum(self.inside, state, row_scale=self.row_scale, base=held)
        new = new if self.diagonal is None else new.addcmul_(self.diagonal.to(new.dtype), state)
        return new if added is None else new.add_(added)

    def step_back(self, grad: Tensor) -> Tensor:
        back = self._send_back(self.inside, grad)
        return back if self.diagonal is None else back.addcmul_(self.diagonal.to(back.dtype), grad)

    def send_back_held(self, grad: Tensor) -> Tensor:
        return self._send_back(self.outside, grad)

    def _send_back(self, operator: Operator, grad: Tensor) -> Tensor:
        entries = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
        return sum_on_cpu(*entries, grad, scale=self.row_scale, row_scale=operator.col_scale)


def _sum(operator: Operator, x: Tensor, *, row_scale: Tensor | None = None, base: Tensor | None = None) -> Tensor:
    entries = (operator.ptr, operator.col, operator.col[:0], operator.weight)
    return sum_on_cpu(*entries, x, scale=operator.col_scale, row_scale=row_scale, base=base)


class _OnGPU:
    def __init__(
        self, inside: Operator, outside: Operator, row_scale: Tensor | None, diagonal: Tensor | None, alpha: float
    ) -> None:
        from gpnn.kernels.gpu import weighted_sum

        self.inside, self.outside, self.sum = inside, outside, weighted_sum
        self.row_scale, self.diagonal, self.alpha = row_scale, diagonal, alpha

    def constant(self, others: Tensor, initial: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        added = None if initial is None else self.alpha * initial
        if not self.outside.num_entries:
            return None, added
        entries, scale = _entries(self.outside), self.outside.col_scale
        return None, self.sum(*entries, others, source_scale=scale, row_scale=self.row_scale, add=added)

    def step(self, state: Tensor, constant: tuple[Tensor | None, Tensor | None]) -> Tensor:
        entries, scales = _entries(self.inside), (self.inside.col_scale, self.row_scale)
        diagonal, added = self.diagonal, constant[1]
        return self.sum(*entries, state, source_scale=scales[0], row_scale=scales[1], diagonal=diagonal, add=added)

    def step_back(self, grad: Tensor) -> Tensor:
        return self._send_back(self.inside, grad, self.diagonal)

    def send_back_held(self, grad: Tensor) -> Tensor:
        return self._send_back(self.outside, grad)

    def _send_back(self, operator: Operator, grad: Tensor, diagonal: Tensor | None = None) -> Tensor:
        entries = (operator.t_ptr, operator.t_row, operator.t_entry, operator.weight)
        return self.sum(*entries, grad, source_scale=self.row_scale, row_scale=operator.col_scale, diagonal=diagonal)


def _entries(operator: Operator) -> tuple[Tensor, Tensor, None, Tensor | None]:
    return operator.ptr, operator.col, None, operator.weight
