"""map_rows: a function of each node alone, a chunk of nodes at a time, computed again in the backward pass.

Encoder and head keep hidden layers, masks and products of every node, several times what propagates: a streamed
propagation saves nothing beside them. Under it they keep their inputs and outputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.csr import slices
from gpnn.engine.blockwise_backward import add_gradient, without_hooks
from gpnn.kernels.autograd import first_order
from gpnn.nn.layers import MaskKey, feature_rows

CHUNK_ROWS = 1 << 16

RowFunction: TypeAlias = Callable[..., Tensor]


def map_rows(
    function: RowFunction, rows: Sequence[Tensor | None], key: MaskKey | None, parameters: Sequence[Tensor]
) -> Tensor:
    """`function(*rows, key)`, `[N, c]`, of which the backward pass keeps the arguments alone.

    Args:
        function: gives a row for each row of its arguments, which follows from that row alone.
        rows: its arguments, dense or sparse CSR, `[N, …]`, or None.
        key: of the random masks, or None.
        parameters: what else gradients flow to.
    """
    differentiable = [each for each in rows if each is not None and each.requires_grad]
    device = next(each.device.type for each in rows if each is not None)
    half = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    run = _Run(function, tuple(map(_Rows.of, rows)), key, tuple(parameters), half)
    return _MapRows.apply(run, *differentiable, *parameters)


def chunk_rows(*widths: int) -> int:
    """Rows of a chunk of arguments as wide as these.

    The gradient of the weights of features is made for each chunk: with very many columns there are fewer chunks.
    """
    return max(CHUNK_ROWS, *widths)


@dataclass(frozen=True, eq=False)
class _Rows:
    """An argument without its history, and whether a gradient flows to it."""

    values: Tensor | None
    wanted: bool

    @classmethod
    def of(cls, values: Tensor | None) -> _Rows:
        wanted = values is not None and values.requires_grad
        return cls(values.detach() if wanted else values, wanted)  # type: ignore[union-attr]

    def take(self, chunk: slice) -> Tensor | None:
        if self.values is None:
            return None
        return self.values[chunk].requires_grad_() if self.wanted else feature_rows(self.values, chunk)


@dataclass(frozen=True, eq=False)
class _Run:
    """One call."""

    function: RowFunction
    rows: tuple[_Rows, ...]
    key: MaskKey | None
    parameters: tuple[Tensor, ...]
    half: torch.dtype | None  # autocast's type, in which the backward pass must repeat the forward one

    def chunks(self) -> Iterator[tuple[slice, list[Tensor | None], MaskKey | None]]:
        """The arguments of each chunk."""
        given = [each.values for each in self.rows if each.values is not None]
        num_rows, step = given[0].shape[0], chunk_rows(*(each.shape[1] for each in given))
        for chunk in slices(num_rows, step):
            key = None if self.key is None else self.key.of_rows(chunk, given[0].device)
            yield chunk, [each.take(chunk) for each in self.rows], key

    def forward(self) -> Tensor:
        out: Tensor | None = None
        num_rows = next(each.values.shape[0] for each in self.rows if each.values is not None)
        for chunk, pieces, key in self.chunks():
            values = self.function(*pieces, key)
            out = values.new_empty(num_rows, values.shape[1]) if out is None else out
            out[chunk] = values
        assert out is not None
        return out

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients of the arguments that require one, and of the parameters."""
        by_rows = [torch.zeros_like(each.values) for each in self.rows if each.wanted and each.values is not None]
        totals: list[Tensor | None] = [None] * len(self.parameters)
        for chunk, pieces, key in self.chunks():
            with torch.enable_grad():
                out = self.function(*pieces, key)
            if not out.requires_grad:  # none of the parameters is used here
                break
            leaves = [piece for piece, each in zip(pieces, self.rows) if each.wanted]
            wanted = [each for each in (*leaves, *self.parameters) if each is not None]
            with without_hooks(self.parameters):
                grads = torch.autograd.grad(out, wanted, grad[chunk], allow_unused=True)
            for into, value in zip(by_rows, grads):
                if value is not None:
                    into[chunk] = value
            totals = [add_gradient(total, value) for total, value in zip(totals, grads[len(leaves) :])]
        return [*by_rows, *totals]


class _MapRows(Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, *differentiable: Tensor) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(*differentiable)  # autograd then notices what is changed between the passes
        return run.forward()

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        run: _Run = ctx.run
        _ = ctx.saved_tensors
        # no cache: older torch would reuse weights that a pass without gradients has cast, and lose theirs
        with torch.autocast(grad.device.type, dtype=run.half, enabled=run.half is not None, cache_enabled=False):
            return None, *run.backward(grad)
