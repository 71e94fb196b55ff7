"""LazyAdam: Adam that leaves the rows of embeddings alone that have no gradient."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn


class LazyAdam(torch.optim.Adam):
    """Adam, but in groups with `rows` set only the rows whose gradient is not all zero take part in a step.

    Adam moves a row on along its old momentum, and forgets its second moment, in every step; here weights, both
    moments and decay of a row stand still until it has a gradient again, as in `torch.optim.SparseAdam`. The bias
    correction counts all steps. Where every row has a gradient, this is Adam. The moments are dense tensors of the
    parameter's shape, in the same `state_dict` as the others'.

    Args:
        params: parameters, or groups of them; a group may have `rows: True` beside Adam's own settings.
        options: Adam's, such as `lr`.

    >>> table = nn.Parameter(torch.ones(3, 2))
    >>> optimizer = LazyAdam([{"params": [table], "rows": True}], lr=0.5)
    >>> table[1].sum().backward()
    >>> optimizer.step()
    >>> (table == 1).all(1).tolist()
    [True, False, True]
    """

    def __init__(self, params: Any, **options: Any) -> None:
        super().__init__(params, **options)
        for group in self.param_groups:
            group.setdefault("rows", False)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step."""
        lazy = [
            (group, parameter, parameter.grad)
            for group in self.param_groups
            if group["rows"]
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        for _, parameter, _ in lazy:
            parameter.grad = None  # Adam passes over it
        loss = super().step(closure)
        for group, parameter, gradient in lazy:
            parameter.grad = gradient
            self._step_rows(parameter, gradient, group)
        return loss

    def _step_rows(self, parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        state["step"] += 1
        rows = gradient.reshape(len(gradient), -1).any(1).nonzero().flatten()  # [R]
        slope, weight = gradient[rows], parameter[rows]  # [R, d]
        if group["weight_decay"]:
            slope = slope.add(weight, alpha=group["weight_decay"])
        (keep, keep_square), step = group["betas"], state["step"].item()
        mean = state["exp_avg"][rows].lerp_(slope, 1 - keep)
        square = state["exp_avg_sq"][rows].mul_(keep_square).addcmul_(slope, slope, value=1 - keep_square)
        scale = (square.sqrt() / math.sqrt(1 - keep_square**step)).add_(group["eps"])
        weight.addcdiv_(mean, scale, value=-group["lr"] / (1 - keep**step))
        for whole, part in ((state["exp_avg"], mean), (state["exp_avg_sq"], square), (parameter, weight)):
            whole.index_copy_(0, rows, part)
