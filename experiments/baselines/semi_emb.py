"""SemiEmb: a network whose hidden layer keeps neighbours together (Weston, Ratle, Mobahi and Collobert 2012)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.baselines.descent import descend, make_optimizer
from experiments.baselines.sparse_rows import DenseLinear, RowLinear, SparseRows
from experiments.baselines.visible import feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    from torch_geometric.data import Data


def semi_emb(
    data: Data,
    *,
    seed: int = 0,
    hidden_channels: int = 50,
    margin: float = 1.0,
    balance: float = 1.0,
    learning_rate: float = 0.3,
    optimizer: str = "sgd",
    batch_size: int = 100,
    steps: int = 1500,
    patience: int = 40,
) -> Tensor:
    """Class probabilities of a network with one hidden layer, embedded over the graph, `[N, C]`.

    Weston et al. 2012, the embedding on the hidden layer ("internal" there): with h_i the hidden layer of node i, each
    step takes labelled nodes, neighbours (i, j) and random pairs (i, k), and goes along the gradient of

        cross entropy + balance · (mean ‖h_i − h_j‖² + mean max(0, margin − ‖h_i − h_k‖)²),

    their loss for embeddings (DrLIM). The defaults are ours, set by a few runs on Cora, for features 0 or 1. Plain
    steps fail on NELL, where rows sum to 55 and no edge joins two nodes with words: see `docs/baselines.md`.

    Args:
        data: with features.
        seed: of the weights and of the batches.
        hidden_channels: width of the hidden layer.
        margin: how far apart random pairs are pushed.
        balance: λ, the weight of the embedding loss.
        learning_rate: step size.
        optimizer: how the gradient is followed, "sgd" (plain steps) or "adagrad".
        batch_size: labelled nodes, edges and random pairs in a step, of each as many.
        steps: the most steps.
        patience: looks at the validation nodes (every ten steps) without improvement after which to stop.

    Raises:
        ValueError: when the optimizer is unknown.
    """
    x = feature_matrix(data, "semi_emb")
    adjacency, train = neighbours(data).tocoo(), labelled(data, "train")
    edges = np.stack([adjacency.row, adjacency.col])
    rng = np.random.default_rng(seed)
    model = _Network(x.shape[1], hidden_channels, data.num_classes, torch.Generator().manual_seed(seed))
    rule = make_optimizer(optimizer, model.parameters(), learning_rate)
    target = torch.from_numpy(train.classes)

    def step() -> None:
        batch = rng.permutation(len(train.nodes))[:batch_size]
        pairs = [rng.integers(data.num_nodes, size=(2, batch_size))]
        if edges.shape[1]:
            pairs.append(edges[:, rng.integers(edges.shape[1], size=batch_size)])
        nodes = np.concatenate([train.nodes[batch], *(ends for pair in pairs for ends in pair)])
        hidden = model.hidden(SparseRows.of(x, nodes))
        parts = hidden[len(batch) :].split(batch_size)
        loss = functional.cross_entropy(model.head(hidden[: len(batch)]), target[batch])
        distance = (parts[0] - parts[1] + 1e-8).norm(dim=1)
        loss = loss + balance * (margin - distance).clamp(min=0).square().mean()
        if edges.shape[1]:
            loss = loss + balance * (parts[2] - parts[3]).square().sum(1).mean()
        rule.zero_grad()
        loss.backward()
        rule.step()

    val = SparseRows.of(x, labelled(data, "val").nodes)
    descend(model, step, lambda: model(val), data, steps=steps, patience=patience)
    with torch.no_grad():
        return torch.softmax(model(SparseRows.of(x)), 1)


class _Network(nn.Module):
    """Features to a tanh layer to logits."""

    def __init__(self, in_channels: int, hidden: int, out_channels: int, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = RowLinear(in_channels, hidden, generator)
        self.head = DenseLinear(hidden, out_channels, generator)

    def hidden(self, rows: SparseRows) -> Tensor:
        return torch.tanh(self.encoder(rows))

    def forward(self, rows: SparseRows) -> Tensor:
        return self.head(self.hidden(rows))
