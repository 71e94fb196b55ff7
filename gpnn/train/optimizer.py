"""The optimiser of a model: which parameters decay, and how the learning rate moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from gpnn.train.lazy_adam import LazyAdam

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
