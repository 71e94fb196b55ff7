"""Max-plus update."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpnn.check import check_range
from gpnn.engine import Step

LOWEST, HIGHEST = -2.5, 1.5  # between which increments are drawn: half of the channels lose a step, a quarter gain one


class MaxPlusUpdate(nn.Module):
    r"""Each channel adds an increment to its message, and takes the larger of that and its state, or that alone.

    .. math::
        h' = \max(h, m + s) \;\text{where}\; k = 1, \qquad h' = m + s \;\text{where}\; k = 0

    With `aggregate="max"` this is a step of max-plus algebra: hop counts, maxima and copies are exact, on graphs of any
    length. The increments s are whole multiples of `step` and the gates k are 0 or 1, per channel; both are learned
    through the rounding (the straight-through gradient of Bengio et al. 2013), so that nothing drifts over many steps.
    A node without a message has m = 0. Share it "kind", so that each kind of phase has increments and gates of its own.

    Args:
        step: the unit of the increments, large compared with what training changes in the initial states; with 0 there
            are none, and what a node sends arrives as it is, however far.
        rate: how fast increments and gates move, compared with other parameters.

    Raises:
        ValueError: when `step` is negative or `rate` is not positive.
    """

    residual = False

    def __init__(self, channels: int, generator: torch.Generator, step: float = 8.0, rate: float = 0.005) -> None:
        super().__init__()
        check_range("step", step, 0)
        check_range("rate", rate, 1e-6)
        self.step, self.rate = step, rate
        drawn = torch.rand(channels, generator=generator) * (HIGHEST - LOWEST) + LOWEST
        self.increment = nn.Parameter(drawn / rate)
        self.keep = nn.Parameter(torch.randn(channels, generator=generator) / rate)

    def start(self, state: Tensor) -> Tensor:
        return state

    def visible(self, working: Tensor) -> Tensor:
        return working

    def forward(self, state: Tensor, messages: Tensor, step: Step) -> Tensor:
        increment = _rounded(self.increment * self.rate) * self.step
        keep = _rounded(torch.sigmoid(self.keep * self.rate))
        arrived = messages + increment.to(messages.dtype)
        return arrived + keep.to(messages.dtype) * torch.relu(state - arrived)


def _rounded(value: Tensor) -> Tensor:
    """The nearest whole numbers, with the gradient of the values themselves."""
    return value + (value.round() - value).detach()
