"""A whole step of a gated graph network as one function of the states, with a kernel for each kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from gpnn.kernels.autograd import setting
from gpnn.kernels.operator import Operator

_for_gradients: ContextVar[bool] = ContextVar("for_gradients", default=False)
_at_once: ContextVar[bool] = ContextVar("at_once", default=False)
_stored: ContextVar[bool] = ContextVar("stored", default=False)


class StepUse(NamedTuple):
    """What a step must compute, and what becomes of it.

    Attributes:
        values: whether its values are wanted.
        gradients: whether its gradients are.
        kept: whether others keep its result until then.
        at_once: whether its backward pass follows before any other step, so that what it needs may stay in a buffer.
        stored: whether all steps of a block store their gates, so that the backward pass computes nothing again.
        rows: which of a block's rows are wanted after its last step, `[w]`; None: all.
    """

    values: bool
    gradients: bool
    kept: bool
    at_once: bool = False
    stored: bool = False
    rows: Tensor | None = None


class Piece(NamedTuple):
    """A block of a phase: what it reads, and how its rows send to each other.

    Attributes:
        operator: the weighted adjacency, receivers by senders, `[n, m]`.
        diagonal: weight of each updating row's message to itself, `[n]`, or None.
        inputs: the rows that it reads, the n that update first, `[m]`; no two blocks update the same row.
    """

    operator: Operator
    diagonal: Tensor | None
    inputs: Tensor


def for_gradients(alone: bool = True) -> AbstractContextManager[None]:
    """Steps inside are made for their backward pass alone: they have the right shape, and values that mean nothing.

    With `alone` False they have values, also inside another such context.
    """
    return setting(_for_gradients, alone)


def wants_values() -> bool:
    """Whether the values of a step are wanted, not its gradients alone."""
    return not _for_gradients.get()


def differentiated_at_once() -> AbstractContextManager[None]:
    """The backward pass of a step inside, or of all steps of a block, follows before this thread takes another."""
    return setting(_at_once, True)


def storing_gates() -> AbstractContextManager[None]:
    """All steps of a block inside store their gates: six states per row and step, and nothing is computed twice."""
    return setting(_stored, True)


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
    from gpnn.kernels.whole_step import whole_step

    if inputs.is_cuda:
        from gpnn.kernels.gpu_gru import GRURule
    else:
        from gpnn.kernels.cpu_gru import GRURule  # type: ignore[assignment]
    return whole_step(GRURule(), operator, diagonal, step_use(inputs, parameters, kept), inputs, parameters)


def gated_steps(
    operator: Operator,
    diagonal: Tensor | None,
    inputs: Tensor,
    parameters: tuple[Tensor, ...],
    repeat: int,
    rows: Tensor | None = None,
) -> Tensor | None:
    """`repeat` times :func:`gated_step` of the first n rows, while the others stay as they are, `[n, d]`.

    With `rows`, `[w]`, distinct, those alone, `[w, d]`: on a CPU the last step is not taken for others. None where no
    kernel takes all steps in one go: on a GPU where the operator is not split, on a CPU in half precision and where a
    block is too large.
    """
    use = step_use(inputs, parameters)
    if inputs.is_cuda:
        if operator.split is None:
            return None
        from gpnn.kernels.gpu_gru import GRURule
        from gpnn.kernels.gpu_steps import WholeSteps

        whole = WholeSteps.apply(GRURule(), operator, diagonal, use, repeat, inputs, *parameters)
        return whole if rows is None else whole.index_select(0, rows)
    from gpnn.kernels.cpu_steps import GatedSteps, fits

    if inputs.dtype != parameters[0].dtype or not fits(inputs, operator.shape[0], repeat):
        return None
    return GatedSteps.apply(operator, diagonal, use._replace(rows=rows), repeat, inputs, *parameters)


def gated_blocks(
    pieces: Sequence[Piece],
    state: Tensor,
    parameters: tuple[Tensor, ...],
    repeat: int,
    begun: Tensor | None = None,
) -> Tensor:
    """The same for all blocks of a phase on a CPU, whatever their size; the rows that update, `[n, d]`, by block.

    Args:
        pieces: the blocks.
        state: what they read, `[m, d]`, in the parameters' type.
        parameters: as of :func:`gated_step`.
        repeat: how many steps.
        begun: weight_hh · h of these rows in the first step, by block, `[n, 3d]`, where it is known; gradients flow
            through it.
    """
    from gpnn.kernels.cpu_steps import GatedBlocks

    use = step_use(state, parameters)
    return GatedBlocks.apply(tuple(pieces), use, repeat, state.contiguous(), begun, *parameters)


def step_use(inputs: Tensor, parameters: tuple[Tensor, ...], kept: bool = False) -> StepUse:
    """What a step from these states is to compute, here and now."""
    gradients = torch.is_grad_enabled() and any(each.requires_grad for each in (inputs, *parameters))
    return StepUse(wants_values(), gradients, kept, at_once=_at_once.get(), stored=_stored.get())
