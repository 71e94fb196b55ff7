"""The gated recurrent unit over many rows: a chunk of rows at a time, gates recomputed in the backward pass.

At a million rows the gates of one step take gigabytes, and touching that fresh memory costs as much as the
arithmetic. Here the gates live in buffers that stay in cache, and the backward pass makes them again from the inputs:
nothing of the size of the gates is ever stored.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 1 << 20  # of one buffer of three gates: a few of them fit in a core's cache


def gru_update(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """What `torch.gru_cell` gives, `[n, d]`, without keeping the gates.

    Args:
        messages: what each row heard, `[n, d]`.
        state: the state of each row, `[n, d]`.
        weight_ih: weights of the messages for the gates r, z, n, `[3d, d]`.
        weight_hh: weights of the states, `[3d, d]`.
        bias_ih: `[3d]`.
        bias_hh: `[3d]`.
    """
    return _GRU.apply(messages, state, weight_ih, weight_hh, bias_ih, bias_hh)


class _GRU(Function):
    @staticmethod
    def forward(ctx: Any, messages: Tensor, state: Tensor, *parameters: Tensor) -> Tensor:
        messages, state = messages.contiguous(), state.contiguous()
        ctx.save_for_backward(messages, state, *parameters)
        out = torch.empty_like(state)
        gates = _Gates(state, parameters)
        for rows in _chunks(state):
            _, keep, candidate, _ = gates.compute(messages[rows], state[rows])
            torch.sub(state[rows], candidate, out=out[rows]).mul_(keep).add_(candidate)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        messages, state, *parameters = ctx.saved_tensors
        grad = grad.contiguous()
        grads = [torch.empty_like(messages), torch.empty_like(state), *(torch.zeros_like(p) for p in parameters)]
        gates = _Gates(state, tuple(parameters))
        for rows in _chunks(state):
            gates.differentiate(messages[rows], state[rows], grad[rows], grads, rows)
        return tuple(grads)


class _Gates:
    """The buffers of one chunk and the arithmetic on them."""

    def __init__(self, state: Tensor, parameters: tuple[Tensor, ...]) -> None:
        self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh = parameters
        rows, width = min(_chunk_rows(state), state.shape[0]), state.shape[1]
        self.width = width
        self.heard, self.own = (state.new_empty(rows, 3 * width) for _ in range(2))
        self.gates = state.new_empty(rows, 2 * width)
        self.candidate = state.new_empty(rows, width)
        self.scratch = state.new_empty(rows, width)

    def compute(self, messages: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """r, z, n and U_n h + b of one chunk, each `[c, d]`, in the buffers."""
        rows, width = len(state), self.width
        heard = torch.addmm(self.bias_ih, messages, self.weight_ih.T, out=self.heard[:rows])
        own = torch.addmm(self.bias_hh, state, self.weight_hh.T, out=self.own[:rows])
        gates = torch.add(heard[:, : 2 * width], own[:, : 2 * width], out=self.gates[:rows]).sigmoid_()
        reset, keep = gates[:, :width], gates[:, width:]
        candidate, recurrent = self.candidate[:rows], own[:, 2 * width :]
        torch.addcmul(heard[:, 2 * width :], reset, recurrent, out=candidate)
        candidate.mul_(2).sigmoid_().mul_(2).sub_(1)  # tanh: the vectorised sigmoid is several times faster
        return reset, keep, candidate, recurrent

    def differentiate(self, messages: Tensor, state: Tensor, grad: Tensor, grads: list[Tensor], rows: slice) -> None:
        """Put the chunk's gradients of messages and state into `grads`, and add those of the parameters."""
        reset, keep, candidate, recurrent = self.compute(messages, state)
        width, scratch = self.width, self.scratch[: len(state)]
        through_ih, through_hh = self.heard[: len(state)], self.own[: len(state)]
        passed = torch.mul(grad, keep, out=grads[1][rows])  # what goes straight to the state
        # candidate: g (1 − z) (1 − n²); the recurrent part is read before its buffer is overwritten
        by_candidate = torch.sub(grad, passed, out=through_ih[:, 2 * width :])
        torch.mul(candidate, candidate, out=scratch)
        by_candidate.addcmul_(by_candidate, scratch, value=-1)
        # reset gate: … · (U_n h + b) r (1 − r)
        by_reset = torch.mul(by_candidate, recurrent, out=through_ih[:, :width]).mul_(reset)
        by_reset.addcmul_(by_reset, reset, value=-1)
        # update gate: g (h − n) z (1 − z)
        by_keep = torch.sub(state, candidate, out=through_ih[:, width : 2 * width]).mul_(passed)
        by_keep.addcmul_(by_keep, keep, value=-1)
        through_hh[:, : 2 * width] = through_ih[:, : 2 * width]
        torch.mul(by_candidate, reset, out=through_hh[:, 2 * width :])
        torch.mm(through_ih, self.weight_ih, out=grads[0][rows])
        passed.addmm_(through_hh, self.weight_hh)
        grads[2].addmm_(through_ih.T, messages)
        grads[3].addmm_(through_hh.T, state)
        grads[4].add_(through_ih.sum(0))
        grads[5].add_(through_hh.sum(0))


def _chunk_rows(state: Tensor) -> int:
    return max(64, CHUNK_BYTES // (3 * state.shape[1] * state.element_size()))


def _chunks(state: Tensor) -> list[slice]:
    step = _chunk_rows(state)
    return [slice(start, min(start + step, len(state))) for start in range(0, len(state), step)]
