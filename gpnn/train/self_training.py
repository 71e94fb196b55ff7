"""Self-training: a model that starts anew learns, beside the training labels, those that its best weights predict."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from gpnn.train.objective import SPLITS, Examples

SHARE = 0.6  # of the nodes outside training and validation, shared equally among the classes
WEIGHT = 3.0  # of all these nodes together, where that of the training nodes is 1
UNKNOWN = -1


def predict_labels(logits: Tensor, examples: Examples) -> Tensor:
    """The classes that predictions are surest of, `[N]`, −1 for all other nodes.

    Of each class as many nodes are taken, the surest ones that are predicted to be of it, so that frequent classes do
    not crowd out the others. Training nodes keep their labels, and validation nodes go on telling what a model knows of
    nodes that it never learnt.

    Args:
        logits: `[N, C]`.
        examples: the training and validation nodes.

    >>> logits = torch.tensor([[4.0, 0.0], [3.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    >>> nodes = {"train": torch.tensor([0]), "val": torch.tensor([5]), "test": torch.tensor([1])}
    >>> predict_labels(logits, Examples(None, torch.zeros(6, dtype=torch.long), nodes)).tolist()
    [-1, 0, 0, 1, 1, -1]
    """
    confidence, label = logits.softmax(1).max(1)
    free = torch.ones_like(label, dtype=torch.bool)
    for split in ("train", "val"):
        free[examples.nodes[split]] = False
    most = math.ceil(SHARE * int(free.sum()) / logits.shape[1])
    found = torch.full_like(label, UNKNOWN)
    for number in range(logits.shape[1]):
        own = (free & (label == number)).nonzero().flatten()
        found[own[confidence[own].argsort(descending=True, stable=True)[:most]]] = number
    return found


def check_labels(labels: Tensor, num_nodes: int, num_classes: int) -> None:
    """Raise ValueError unless labels of a checkpoint are classes of these nodes."""
    fits = labels.dtype == torch.int64 and labels.shape == (num_nodes,)
    if not fits or not bool(((labels >= UNKNOWN) & (labels < num_classes)).all()):
        raise ValueError(f"A checkpoint's labels must be a class or -1 for each of the {num_nodes} nodes. Got others.")


def add_labels(examples: Examples, labels: Tensor) -> Examples:
    """The examples with the nodes of predicted labels, −1 where there is none, `[N]`, among the training nodes."""
    train, taught = examples.nodes["train"], (labels != UNKNOWN).nonzero().flatten()
    weight = torch.ones(len(labels), device=labels.device) if examples.weight is None else examples.weight.clone()
    weight[taught] = WEIGHT * float(weight[train].sum()) / max(1, len(taught))
    nodes = {split: examples.nodes[split] for split in SPLITS} | {"train": torch.cat([train, taught]).sort().values}
    return replace(examples, y=torch.where(labels == UNKNOWN, examples.y, labels), nodes=nodes, weight=weight)
