"""Linear propagation with teleport."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.check import check_choice
from gpnn.engine import Step

TELEPORTS = ("phase", "round")


class LinearUpdate(nn.Module):
    """h' = (1 − α) m + α h₀: personalised propagation (APPNP, Gasteiger et al. 2019); α = 0 is plain smoothing.

    It has no parameters. With the readout "learned" over rounds and α = 0 it is GPR-GNN, with "mean" the propagation
    of GRAND.

    Args:
        alpha: probability α of the teleport, from 0 to 1.
        teleport: "phase" teleports in every phase, "round" once per round: not in phases that close it.
    """

    def __init__(self, channels: int, generator: torch.Generator, alpha: float = 0.1, teleport: str = "round") -> None:
        super().__init__()
        if not 0 <= alpha <= 1:
            raise ValueError(f"`alpha` must lie from 0 to 1. Got {alpha}.")
        check_choice("teleport", teleport, TELEPORTS)
        self.alpha = alpha
        self.teleport = teleport

    @property
    def residual(self) -> bool:
        return self.alpha > 0

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        if not self.alpha or (self.teleport == "round" and step.closing):
            return messages
        assert step.initial is not None
        return torch.lerp(messages.to(step.initial.dtype), step.initial, self.alpha)  # bf16 under autocast
