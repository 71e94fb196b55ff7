"""What Planetoid's two variants share: the classifier over features and embeddings, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.baselines.contexts import Triples
from experiments.baselines.descent import descend
from experiments.baselines.sparse_rows import DenseLinear, RowLinear, SparseRows
from experiments.baselines.visible import labelled

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


class NodeTable(nn.Module):
    """A learnable vector for each node, whose gradient is sparse.

    Args:
        num_nodes: N.
        channels: width d.
        generator: where the vectors come from.
    """

    def __init__(self, num_nodes: int, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.rand(num_nodes, channels, generator=generator) - 0.5) / channels)

    def forward(self, nodes: Tensor) -> Tensor:
        """The vectors of `nodes`, `[M, d]`."""
        return functional.embedding(nodes, self.weight, sparse=True)


def loss_against_drawn(embedding: Tensor, context: NodeTable, triples: Triples) -> Tensor:
    """−Σ log σ(γ e_i · w_c): true contexts told from those that were drawn against them.

    Args:
        embedding: of the triples' nodes, `[T, d]`.
        context: the contexts' vectors.
        triples: T of them.
    """
    dot = (embedding * context(torch.from_numpy(triples.context))).sum(1)
    return -functional.logsigmoid(dot * torch.from_numpy(triples.sign)).sum()


def loss_against_all(embedding: Tensor, context: NodeTable, triples: Triples) -> Tensor:
    """−Σ log softmax(W e_i)_c: true contexts told from all nodes, N products a triple; arguments as above."""
    return functional.cross_entropy(embedding @ context.weight.t(), torch.from_numpy(triples.context), reduction="sum")


class JointClassifier(nn.Module):
    """softmax([softmax(x W_x), softmax(e W_e)] W): classes from features and embedding, each alone and joined.

    Yang et al. 2016, sections 3.2 and 3.3, with one layer for each arrow, as in their experiments; as in their
    code, the layers before the last are trained to predict the class too.

    Args:
        in_channels: number of features F; 0 without features.
        channels: width of the embeddings, d.
        num_classes: C.
        generator: where the weights come from.
    """

    def __init__(self, in_channels: int, channels: int, num_classes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.by_embedding = DenseLinear(channels, num_classes, generator)
        self.by_features = RowLinear(in_channels, num_classes, generator) if in_channels else None
        self.joint = DenseLinear(2 * num_classes, num_classes, generator) if in_channels else None

    def forward(self, rows: SparseRows | None, embedding: Tensor) -> list[Tensor]:
        """The logits of each layer, the joint ones last, `[M, C]` each."""
        from_embedding = self.by_embedding(embedding)
        if self.by_features is None or self.joint is None or rows is None:
            return [from_embedding]
        from_features = self.by_features(rows)
        beliefs = torch.cat([from_features.softmax(1), from_embedding.softmax(1)], 1)
        return [from_features, from_embedding, self.joint(beliefs)]


def train_classifier(
    model: nn.Module,
    logits_of: Callable[[np.ndarray | None], list[Tensor]],
    data: Data,
    *,
    learning_rate: float,
    batch_size: int,
    steps: int,
    patience: int,
    rng: np.random.Generator,
    between: Callable[[], None] | None = None,
) -> Tensor:
    """Train by plain stochastic gradients and select on the validation nodes; all nodes' probabilities, `[N, C]`.

    Args:
        model: whose parameters are trained.
        logits_of: every layer's logits of some nodes (None: all), the final ones last.
        data: labels and masks.
        learning_rate: step size.
        batch_size: training nodes in a step.
        steps: the most steps.
        patience: looks at the validation nodes without improvement after which to stop.
        rng: the source of batches.
        between: done before each step.
    """
    train, val = labelled(data, "train"), labelled(data, "val").nodes
    target = torch.from_numpy(train.classes)
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=learning_rate)

    def step() -> None:
        if between is not None:
            between()
        batch = rng.permutation(len(train.nodes))[:batch_size]
        logits = logits_of(train.nodes[batch])
        loss = torch.stack([functional.cross_entropy(each, target[batch]) for each in logits]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    descend(model, step, lambda: logits_of(val)[-1], data, steps=steps, check_every=20, patience=patience)
    with torch.no_grad():
        return torch.softmax(logits_of(None)[-1], 1)


def rows_of(x: scipy.sparse.csr_matrix | None, nodes: np.ndarray | None) -> SparseRows | None:
    """The features of some nodes (None: all), or None without features."""
    return None if x is None else SparseRows.of(x, nodes)
