"""Gated recurrent unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.check import check_choice
from gpnn.engine import Step
from gpnn.kernels.plain import is_plain
from gpnn.nn.layers import glorot

RESETS = ("after", "before")


class GRUUpdate(nn.Module):
    r"""The gated recurrent unit of Cho et al. (2014), as GGNN uses it (Li et al. 2015).

    .. math::
        r = \sigma(W_r m + U_r h), \quad z = \sigma(W_z m + U_z h), \quad
        n = \tanh(W_n m + r \odot U_n h), \quad h' = (1 - z) n + z h

    Weights are laid out as in :class:`torch.nn.GRUCell`, so that they can be exchanged with it.

    Args:
        update_bias: start of the update gate's bias; 1, as in the reference code, begins close to the identity.
        reset: where the reset gate acts: "after" the matrix product as in PyTorch and the equation above, or
            "before" it, n = tanh(W m + U(r ⊙ h)), as in the papers and in the authors' code.
    """

    residual = False

    def __init__(
        self, channels: int, generator: torch.Generator, update_bias: float = 1.0, reset: str = "after"
    ) -> None:
        super().__init__()
        check_choice("reset", reset, RESETS)
        self.reset = reset
        self.weight_ih = nn.Parameter(_gates(channels, generator))
        self.weight_hh = nn.Parameter(_gates(channels, generator))
        bias = torch.zeros(3 * channels)
        bias[channels : 2 * channels] = update_bias
        self.bias_ih = nn.Parameter(bias)
        self.bias_hh = nn.Parameter(torch.zeros(3 * channels))

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        parameters = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if self.reset == "before":
            return _update_before(messages, state, *parameters)
        if is_plain():
            return torch.gru_cell(messages, state, *parameters)
        if state.is_cuda:
            from gpnn.kernels.gpu_gru import gru_update
        else:
            from gpnn.kernels.cpu_gru import gru_update

        update = torch.gru_cell if torch.is_autocast_enabled(state.device.type) else gru_update
        return update(messages, state, *parameters)


def _update_before(
    messages: Tensor, state: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor, bias_hh: Tensor
) -> Tensor:
    """The update whose reset gate acts before the product; in bf16 under autocast, as `torch.gru_cell` has it."""
    if torch.is_autocast_enabled(state.device.type):
        state = state.to(torch.get_autocast_dtype(state.device.type))
    if state.is_cuda:
        from gpnn.kernels.gpu_gru_before import gru_update_before

        return gru_update_before(messages, state, weight_ih, weight_hh, bias_ih, bias_hh)
    sums, width = torch.addmm(bias_ih, messages, weight_ih.T), state.shape[1]  # [n, 3d]
    own = torch.addmm(bias_hh[: 2 * width], state, weight_hh[: 2 * width].T)
    reset, keep = torch.sigmoid(sums[:, : 2 * width] + own).chunk(2, dim=1)
    candidate = torch.addmm(bias_hh[2 * width :], reset * state, weight_hh[2 * width :].T)
    return torch.lerp(torch.tanh(sums[:, 2 * width :] + candidate), state, keep)


def _gates(channels: int, generator: torch.Generator) -> Tensor:
    return torch.cat([glorot(channels, channels, generator) for _ in range(3)])
