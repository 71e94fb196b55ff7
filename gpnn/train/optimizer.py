"""The optimiser of a model: which parameters decay, how the learning rate moves, and LazyAdam."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.distributed.plan import split_parameters


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


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "lazy_adam": LazyAdam,
    "sgd": lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=0.9),
    "rmsprop": torch.optim.RMSprop,
}

# each maps the share of the epochs done, in [0, 1], to a factor of the learning rate
LEARNING_RATE_SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1 - done,
    "step": lambda done: 1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01,
}


def make_optimizer(
    model: nn.Module,
    name: str = "adam",
    *,
    learning_rate: float = 0.01,
    weight_decay: float = 0.0,
    decay_on: str = "all_but_embeddings",
) -> torch.optim.Optimizer:
    """The optimiser over the parameters that learn, grouped by whether they decay and whether they are embeddings.

    Weight decay adds wd·w to the gradient of w, which is wd·½‖w‖² added to the loss ("adamw" shrinks w).
    The reference code decays every weight and bias but no embedding; that is "all_but_embeddings".
    Groups of embeddings have `rows` set, which "lazy_adam" heeds.
    """
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter, decays, embedding in _kinds(model, decay_on):
        groups.setdefault((not decays, embedding), []).append(parameter)
    if not groups:
        raise ValueError("A model must have parameters that require gradients. Got none.")
    settings = [
        {"params": groups[kind], "weight_decay": 0.0 if kind[0] else weight_decay, "rows": kind[1]}
        for kind in sorted(groups)  # those that decay come first
    ]
    return OPTIMIZERS[name](settings, lr=learning_rate)


def learning_rate(
    base: float, *, schedule: str = "constant", warmup: int = 0, epochs: int = 1
) -> Callable[[int], float]:
    """The learning rate of each epoch (from 1): a linear rise over `warmup` epochs, then the schedule.

    It depends on the epoch alone, so that a resumed run takes the same steps.

    >>> rate = learning_rate(1.0, warmup=4, epochs=8)
    >>> [rate(epoch) for epoch in (1, 2, 4, 8)]
    [0.25, 0.5, 1.0, 1.0]
    """
    factor = LEARNING_RATE_SCHEDULES[schedule]

    def rate(epoch: int) -> float:
        if epoch <= warmup:
            return base * (epoch / warmup)
        return base * factor((epoch - 1 - warmup) / max(1, epochs - warmup))

    return rate


def clip_gradients(model: nn.Module, limit: float, group: ProcessGroup = SINGLE) -> float:
    """Make the gradients those of the whole loss and scale them down to norm `limit` (0: leave them); their norm.

    Each process of the group has the gradient of its share of the loss. Embeddings of its own nodes have theirs
    already; all other gradients are summed over the processes.
    """
    own, shared = split_parameters(model)
    _all_reduce_gradients(shared, group)
    norm = get_total_norm([each.grad for each in shared if each.grad is not None])
    if own:
        squares = [each.grad.double().square().sum() for each in own if each.grad is not None]
        whole = group.all_reduce(torch.stack(squares).sum() if squares else norm.new_zeros((), dtype=torch.float64))
        norm = (whole + norm.double().square()).sqrt().to(norm)
    clip_grads_with_norm_([*own, *shared], limit or math.inf, norm)
    return float(norm)


def _all_reduce_gradients(shared: list[nn.Parameter], group: ProcessGroup) -> None:
    """Sum the gradients over the processes, all of one type at once; one that no process has stays None."""
    if group.size == 1:
        return
    for dtype in sorted({each.dtype for each in shared}, key=str):
        parameters = [each for each in shared if each.dtype == dtype]
        present = parameters[0].new_tensor([each.grad is not None for each in parameters])
        grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        bucket = group.all_reduce(torch.cat([present, *(grad.flatten() for grad in grads)]))
        group.traffic.reduced += bucket.numel() * bucket.element_size()
        present, *summed = bucket.split([len(parameters), *(each.numel() for each in parameters)])
        for flag, each, grad in zip(present.tolist(), parameters, summed):
            each.grad = grad.view_as(each) if flag else None


def _kinds(model: nn.Module, decay_on: str) -> Iterator[tuple[nn.Parameter, bool, bool]]:
    """Each parameter that learns, whether it decays, and whether it is an embedding."""
    embeddings = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.Embedding) or "embedding" in type(module).__name__.lower()
        for parameter in module.parameters(recurse=False)
    }
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        embedding = id(parameter) in embeddings or "embedding" in name
        if decay_on == "all":
            yield parameter, True, embedding
        elif decay_on == "matrices":
            yield parameter, parameter.dim() > 1 and not embedding, embedding
        else:
            yield parameter, not embedding, embedding
