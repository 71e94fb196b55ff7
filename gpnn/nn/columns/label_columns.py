"""label_columns: what the training labels around a node tell of it, its own label aside."""

from __future__ import annotations

import torch
from torch import Tensor

from gpnn.kernels import aggregate
from gpnn.nn.columns.relations import Relations, closed_walks

PRIOR = 1.0  # labels that every neighbourhood has besides its own, of the mean of all


def label_columns(relations: Relations, target: Tensor, known: Tensor, hops: int) -> Tensor:
    """The mean target of the labelled neighbours and how many they are, leave-one-out, `[N, W·(D + 1)]`.

    One step for every relation and, with two hops, two steps for every pair of them: W walks. A walk that returns to
    its node does not count, so that no node sees its own label. The mean is drawn to that of all labels by one label.

    Args:
        relations: the neighbours.
        target: of the training nodes: shares of classes, labels or a number; zeros elsewhere, `[N, D]`.
        known: 1 for training nodes, 0 elsewhere, `[N]`.
        hops: 1 or 2.

    >>> from gpnn.graph import Graph
    >>> path = Relations.of(Graph([0, 1, 1, 2], [1, 0, 2, 1], num_nodes=3))
    >>> label_columns(path, torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([1.0, 1.0, 0.0]), 1)[:, 0].tolist()
    [0.25, 0.75, 0.25]
    """
    labels = torch.cat([target, known[:, None]], 1)  # [N, D + 1]
    sums = [aggregate(operator, labels) for operator in relations.each]
    if hops > 1:
        for last, first in relations.pairs:
            returning = closed_walks(last, first).to(labels)
            sums.append(aggregate(last, aggregate(first, labels)) - returning[:, None] * labels)
    prior = target.sum(0) / known.sum().clamp(min=1)
    return torch.cat([_frequencies(each, prior) for each in sums], 1)


def _frequencies(sums: Tensor, prior: Tensor) -> Tensor:
    total, count = sums[:, :-1], sums[:, -1:].clamp(min=0)
    return torch.cat([(total + PRIOR * prior) / (count + PRIOR), count.log1p()], 1)
