"""A whole step of a gated graph network as one function of the states, with a kernel for each kind of device."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.kernels.autograd import setting
from gpnn.kernels.operator import Operator

_for_gradients: ContextVar[bool] = ContextVar("for_gradients", default=False)
_at_once: ContextVar[bool] = ContextVar("at_once", default=False)


class StepUse(NamedTuple):
    """What a step must compute, and what becomes of it.

    Attributes:
        values: whether its values are wanted.
        gradients: whether its gradients are.
        kept: whether others keep its result until then.
        at_once: whether its backward pass follows before any other step, so that what it needs may stay in a buffer.
    """

    values: bool
    gradients: bool
    kept: bool
    at_once: bool = False


def for_gradients(alone: bool = True) -> AbstractContextManager[None]:
    """Steps inside are made for their backward pass alone: they have the right shape, and values that mean nothing.

    With `alone` False they have values, also inside another such context.
    """
    return setting(_for_gradients, alone)


def differentiated_at_once() -> AbstractContextManager[None]:
    """The backward pass of a step inside, or of all steps of a block, follows before this thread takes another."""
    return setting(_at_once, True)


def gated_step(
    operator: Operator,
    diagonal: Tensor | None,
    inputs: Tensor,
    parameters: tuple[Tensor, ...],
    *,
    kept: bool = False,
) -> Tensor:
    """gru_cell(A h + diag · h, h) over the first n of the rows `h`, `[n, d]`; A is `[n, m]`.

    Args:
        operator: A, the weighted adjacency, receivers by senders.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the states h, the updating rows first, `[m, d]`, in the parameters' type or in bfloat16.
        parameters: weight_ih, weight_hh, bias_ih and bias_hh of :func:`torch.gru_cell`.
        kept: whether the result is kept until the backward pass in any case, which can then make use of it.
    """
    if inputs.is_cuda:
        from gpnn.kernels.gpu_gru import GatedStep
    else:
        from gpnn.kernels.cpu_gru import GatedStep  # type: ignore[assignment]
    return GatedStep.apply(operator, diagonal, _use(inputs, parameters, kept), inputs, *parameters)


def gated_steps(
    operator: Operator, diagonal: Tensor | None, inputs: Tensor, parameters: tuple[Tensor, ...], repeat: int
) -> Tensor | None:
    """`repeat` times :func:`gated_step` of the first n rows, while the others stay as they are, `[n, d]`.

    None where no kernel takes all steps in one go: on a GPU where the operator is not split, on a CPU in half precision
    and where a block is too large.
    """
    if inputs.is_cuda:
        if operator.split is None:
            return None
        from gpnn.kernels.gpu_gru import GatedSteps
    else:
        from gpnn.kernels.cpu_gru import GatedSteps, fits  # type: ignore[assignment]

        if inputs.dtype != parameters[0].dtype or not fits(inputs, operator.shape[0], repeat):
            return None
    use = _use(inputs, parameters, kept=False)
    return GatedSteps.apply(operator, diagonal, use, repeat, inputs, *parameters)


def _use(inputs: Tensor, parameters: tuple[Tensor, ...], kept: bool) -> StepUse:
    gradients = torch.is_grad_enabled() and any(each.requires_grad for each in (inputs, *parameters))
    return StepUse(not _for_gradients.get(), gradients, kept, at_once=_at_once.get())
