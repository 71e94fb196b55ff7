"""Where parameters start: every draw comes from a generator that the caller seeds."""

from __future__ import annotations

import torch
from torch import Tensor


def glorot(fan_in: int, fan_out: int, generator: torch.Generator) -> Tensor:
    """Glorot and Bengio's uniform draw, `[fan_in, fan_out]`."""
    limit = (6 / (fan_in + fan_out)) ** 0.5
    return (torch.rand(fan_in, fan_out, generator=generator) * 2 - 1) * limit
