"""RowLoss: a sum over rows of the final states, so that blocks can be differentiated as they are done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.engine.plan import Plan
from gpnn.kernels.first_order import first_order

CPU_ROWS, GPU_ROWS = 1 << 16, 1 << 20  # whose share of a loss is taken at one time


@dataclass(frozen=True, eq=False)
class RowLoss:
    """A sum over some rows of the working states after the last round.

    Attributes:
        rows: their plan rows, distinct, rising, `[n]`, on the device of the states.
        share: the share of some of them, a scalar: a function of their states, `[m, s]`, and of their places in `rows`.
        tensors: what gradients flow to besides the states.
    """

    rows: Tensor
    share: Callable[[Tensor, slice], Tensor]
    tensors: tuple[Tensor, ...]

    @cached_property
    def _rows_on_host(self) -> Tensor:
        return self.rows.cpu()  # once: a copy for each block would wait for all work given before it

    def places(self, rows: slice) -> slice:
        """Where those of a contiguous range of plan rows stand in `rows`."""
        first, last = torch.searchsorted(self._rows_on_host, torch.tensor([rows.start, rows.stop])).tolist()
        return slice(first, last)

    def pieces(self, device: torch.device) -> Iterator[slice]:
        """All places, as many at a time as a device is given work for."""
        step = CPU_ROWS if device.type == "cpu" else GPU_ROWS
        for start in range(0, len(self.rows), step):
            yield slice(start, min(start + step, len(self.rows)))

    def value(self, states: Tensor, block: slice, places: slice) -> Tensor:
        """The share of a block, given the states of all its rows, `[k, s]`."""
        return self.share(states.index_select(0, self.rows[places] - block.start), places)


def ends_independently(plan: Plan) -> bool:
    """Whether the last round is one phase that writes every row and whose blocks do not read each other."""
    if not plan.num_rounds or len(plan.rounds[-1]) != 1 or plan.runners is not None:
        return False
    (phase,) = plan.rounds[-1]
    return phase.independent and phase.num_rows == plan.num_nodes + plan.num_virtual


def ends_in_blocks(plan: Plan) -> bool:
    """Whether it :func:`ends_independently` and its blocks are contiguous; builds them."""
    return ends_independently(plan) and all(isinstance(block.rows, slice) for block in plan.rounds[-1][0].chunks)


class Differentiated(Function):
    """A value whose gradients are known already: the backward pass hands them on."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, grads: list[Tensor | None], *tensors: Tensor) -> Tensor:
        ctx.grads = grads
        return value.clone()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if each is None else each * grad.to(each.dtype) for each in ctx.grads)
        return None, None, *scaled
