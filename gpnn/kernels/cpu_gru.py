"""The gated recurrent unit on the CPU.

At a million rows the gates of one step take gigabytes, and touching that fresh memory costs as much as the arithmetic.
Here the gates live in buffers that stay in cache, a chunk of rows at a time, and the backward pass makes them again
from the inputs: nothing of the size of the gates is ever stored.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
from torch import Tensor

from gpnn.csr import slices
from gpnn.kernels.cpu_gates import GateGradients, Gates, GateWeights, add_up, chunk_rows
from gpnn.kernels.execution import float32_products, has_bf16_products, share_rows
from gpnn.kernels.update_rule import Hints, Parameters, RowUpdate
from gpnn.pages import empty_large


def gru_update(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """What `torch.gru_cell` gives, `[n, d]`, without keeping the gates.

    Args:
        messages: the aggregated messages of each row, `[n, d]`.
        state: the state of each row, `[n, d]`, in the parameters' type or in bfloat16, as the messages.
        weight_ih: weights of the messages for the gates r, z, n, `[3d, d]`.
        weight_hh: weights of the states, `[3d, d]`.
        bias_ih: `[3d]`.
        bias_hh: `[3d]`.
    """
    return RowUpdate.apply(GRURule(), messages, state, weight_ih, weight_hh, bias_ih, bias_hh)


class GRURule:
    """:class:`gpnn.kernels.update_rule.UpdateRule` of the gated recurrent unit."""

    def visible(self, inputs: Tensor) -> Tensor:
        return inputs

    def update(self, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
        out = empty_large(*state.shape, dtype=state.dtype)
        update_all(GateWeights.of(*parameters), messages, state, out)
        return out

    def differentiate(
        self, messages: Tensor, state: Tensor, grad: Tensor, parameters: Parameters, sent: Tensor, hints: Hints
    ) -> tuple[Tensor, list[Tensor]]:
        out = None if hints.out is None or hints.out.dtype != parameters[0].dtype else hints.out
        totals = differentiate_all(GateWeights.of(*parameters), messages, state, out, grad, sent)
        return messages, list(totals.as_parameters())

    def finish(self, inputs: Tensor, grad: Tensor | None, sent: Tensor) -> None:
        """A node sends its state."""


def update_all(weights: GateWeights, messages: Tensor, state: Tensor, out: Tensor) -> None:
    """Put the next state of every row into `out`, `[n, d]`."""
    rows = _chunk_rows(weights, state)

    def do(start: int, stop: int) -> None:
        gates = Gates(weights, state.dtype, min(rows, stop - start))
        for chunk in slices(stop, rows, start):
            gates.update(messages[chunk], state[chunk], out[chunk])

    with _products(state):
        share_rows(len(state), work(state), do, multiple=rows)


def differentiate_all(
    weights: GateWeights, messages: Tensor, state: Tensor, out: Tensor | None, grad: Tensor, grad_state: Tensor
) -> GateGradients:
    """Replace `messages` by their gradient, fill `grad_state`; the gradients of the parameters.

    With the next states `out`, `[n, d]`, where they were kept, one product in six of the gates need not be made again.
    """
    rows, none = _chunk_rows(weights, state), state[:0]

    def do(start: int, stop: int) -> GateGradients:
        gates = Gates(weights, state.dtype, min(rows, stop - start))
        totals = gates.totals()
        for chunk in slices(stop, rows, start):
            known = none if out is None else out[chunk]
            parts = (messages[chunk], state[chunk], known, grad[chunk].contiguous())
            gates.differentiate(*parts, grad_state=grad_state[chunk], totals=totals)
        return totals

    with _products(state):
        return add_up(share_rows(len(state), work(state), do, multiple=rows))


def work(state: Tensor) -> int:
    """Multiplications that one update of these rows takes."""
    return 6 * state.numel() * state.shape[1]


def _chunk_rows(weights: GateWeights, state: Tensor) -> int:
    """Rows per chunk: products in bfloat16 turn their operands into it each time, which pays off over more rows."""
    return chunk_rows(weights) * (2 if _in_bf16(state) else 1)


def _products(state: Tensor) -> AbstractContextManager[None]:
    """Inside, products are taken in bfloat16, summed in float32, where the states are bfloat16 and the CPU has such."""
    return float32_products("medium" if _in_bf16(state) else None)


def _in_bf16(state: Tensor) -> bool:
    return state.dtype == torch.bfloat16 and has_bf16_products()
