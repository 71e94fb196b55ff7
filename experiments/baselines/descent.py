"""A small training loop: steps, a look at the validation nodes now and then, the best weights at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.baselines.visible import labelled

if TYPE_CHECKING:
    from torch_geometric.data import Data

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}


def make_optimizer(name: str, parameters: Iterable[nn.Parameter], rate: float) -> torch.optim.Optimizer:
    """A rule to go along gradients, sparse ones too.

    Args:
        name: "sgd", plain steps; "adagrad", steps that shrink for each weight with the gradients that it has seen, so
            that the weights of rare features go as far as those of common ones.
        parameters: what is trained.
        rate: step size.

    Raises:
        ValueError: for an unknown name.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"An optimizer must be one of {', '.join(OPTIMIZERS)}. Got {name!r}.")
    return OPTIMIZERS[name](parameters, lr=rate)  # type: ignore[call-arg]


def descend(
    model: nn.Module,
    step: Callable[[], None],
    validation_logits: Callable[[], Tensor],
    data: Data,
    *,
    steps: int,
    check_every: int = 10,
    patience: int = 0,
) -> None:
    """Take `steps` training steps; the model ends with the weights that validate best.

    Better is the larger validation accuracy, and the smaller cross entropy among equals. Without validation nodes the
    last weights stay.

    Args:
        model: what is trained.
        step: one step of training.
        validation_logits: the model's logits (or log probabilities) of the validation nodes, in their order, `[V, C]`.
        data: labels and `val_mask`.
        steps: the most steps.
        check_every: steps between two looks.
        patience: looks without improvement after which to stop; 0 never stops early.
    """
    target = torch.from_numpy(labelled(data, "val").classes)
    best: tuple[float, float] | None = None
    kept: dict[str, Tensor] = {}
    waited = 0
    for number in range(1, steps + 1):
        model.train()
        step()
        if not len(target) or (number % check_every and number != steps):
            continue
        model.eval()
        with torch.no_grad():
            logits = validation_logits()
        found = (float((logits.argmax(1) == target).double().mean()), -float(functional.cross_entropy(logits, target)))
        waited += 1
        if best is None or found > best:
            best, waited = found, 0
            kept = {name: value.clone() for name, value in model.state_dict().items()}
        if 0 < patience <= waited:
            break
    if kept:
        model.load_state_dict(kept)
    model.eval()
