"""Cells whose whole step is one kernel: a gated unit whose message is a weighted sum of linear maps of states."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpnn.engine import Block, Step
from gpnn.kernels.gated import gated_step
from gpnn.nn.message import IdentityMessage, LinearMessage
from gpnn.nn.update.gru import GRUUpdate

if TYPE_CHECKING:
    from gpnn.nn.cell import Cell


def advance_gated(cell: Cell, block: Block, inputs: Tensor, step: Step) -> Tensor | None:
    """The rows that `block` writes, `[n, d]`, by :func:`gpnn.kernels.gated.gated_step`; None where it does not apply.

    A sum is linear, so that a linear message's map W moves behind it and into the gates: W_ih (Σ h W) = (W_ih Wᵀ) Σ h.
    A product of [d, d] then takes the place of one of [m, d].
    """
    if not _applies(cell, block, inputs):
        return None
    message, update = cell.message, cell.update
    assert isinstance(update, GRUUpdate)
    weight: Tensor = update.weight_ih
    if isinstance(message, LinearMessage):
        weight = weight @ message.weight[0].T
    operator, diagonal = block.operators_for(inputs.dtype)[0], block.diagonal
    if cell.aggregate == "sum":
        operator, diagonal = block.raw_operators[0], None
    parameters = (weight, update.weight_hh, update.bias_ih, update.bias_hh)
    return gated_step(operator, diagonal, inputs, parameters, kept=step.synchronous)


def kernel_bytes(cell: Cell, block: Block, inputs: Tensor) -> Callable[[int], float] | None:
    """Bytes that the kernel's backward pass takes for a number of rows, its results aside; None where it has none."""
    if not _applies(cell, block, inputs):
        return None
    if not inputs.is_cuda:
        return lambda num_rows: 0.0  # chunks in a core's cache
    from gpnn.kernels.gpu_gru import work_bytes

    return partial(work_bytes, inputs)


def _applies(cell: Cell, block: Block, inputs: Tensor) -> bool:
    device = inputs.device.type
    if device not in ("cpu", "cuda") or torch.is_autocast_enabled(device):
        return False
    if cell.aggregate not in ("mean", "sum") or len(block.operators) != 1:
        return False
    update, message = cell.update, cell.message
    if not isinstance(update, GRUUpdate) or update.reset != "after":
        return False
    if not isinstance(message, IdentityMessage) and not (
        isinstance(message, LinearMessage) and len(message.weight) == 1
    ):
        return False
    kind = update.weight_ih.dtype
    return kind in (torch.float32, torch.float64) and inputs.dtype in (kind, torch.bfloat16)
