"""UpdateRule: what kernels of whole steps must know of an update function; and its use on messages that are there."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from gpnn.kernels.autograd import first_order, is_plain

Parameters = tuple[Tensor, ...]


class Hints(NamedTuple):
    """What spares a backward pass work.

    Attributes:
        out: the next states, `[n, d]`, where they were kept.
        scale: a factor of each row's gradient of messages, `[n]`, which a transposed sum would else take per entry.
    """

    out: Tensor | None = None
    scale: Tensor | None = None


class UpdateRule(Protocol):
    """An update function over all rows of a step, with its gradient, on one kind of device."""

    def visible(self, inputs: Tensor) -> Tensor:
        """What rows in these states, `[m, d]`, send, `[m, d]`."""

    def update(self, messages: Tensor, state: Tensor, parameters: Parameters) -> Tensor:
        """The next states, `[n, d]`, of rows in `state` that received `messages`."""

    def differentiate(
        self, messages: Tensor, state: Tensor, grad: Tensor, parameters: Parameters, sent: Tensor, hints: Hints
    ) -> tuple[Tensor, list[Tensor]]:
        """Given the gradient of the next states, `[n, d]`, write that of what the rows send, own use alone, to `sent`.

        Gives the gradients of the messages, which may take the messages' place, and of the parameters.
        """

    def finish(self, inputs: Tensor, grad: Tensor | None, sent: Tensor) -> None:
        """Turn `sent`, the whole gradient of what rows send, `[m, d]`, into that of their states, in its place.

        `grad` is that of the next states of the first rows, `[n, d]`; None: no row has one.
        """


class RowUpdate(Function):
    """The next states, `[n, d]`, by a rule, from messages and states, `[n, d]` each, and the rule's parameters."""

    @staticmethod
    def forward(ctx: Any, rule: UpdateRule, messages: Tensor, state: Tensor, *parameters: Tensor) -> Tensor:
        messages, state = messages.contiguous(), state.contiguous()
        ctx.rule = rule
        ctx.save_for_backward(messages, state, *parameters)
        return rule.update(messages, state, parameters)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        messages, state, *parameters = ctx.saved_tensors
        grad, total = grad.contiguous(), torch.empty_like(state)
        found = ctx.rule.differentiate(messages.clone(), state, grad, tuple(parameters), total, Hints())
        ctx.rule.finish(state, grad, total)
        return None, found[0], total, *found[1]


def has_kernels(state: Tensor, parameter: Tensor | None = None) -> bool:
    """Whether kernels of update functions take such states and parameters, None: no parameters, here and now."""
    kind = torch.promote_types(state.dtype, torch.float32) if parameter is None else parameter.dtype
    device = state.device.type
    if is_plain() or device not in ("cpu", "cuda") or torch.is_autocast_enabled(device):
        return False
    return kind in (torch.float32, torch.float64) and state.dtype in (kind, torch.bfloat16)
