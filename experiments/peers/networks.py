"""Networks of PyTorch Geometric's convolutions: plain, and with residual connections and normalisation."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, SAGEConv


class PlainGCN(nn.Module):
    """Kipf and Welling's network of `layers` GCN convolutions."""

    def __init__(self, channels: int, hidden: int, outputs: int, layers: int, dropout: float) -> None:
        super().__init__()
        widths = [channels, *[hidden] * (layers - 1), outputs]
        self.layers = nn.ModuleList(GCNConv(one, other) for one, other in pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Scores `[N, C]`."""
        for layer in self.layers[:-1]:
            x = layer(self.dropout(x), edge_index).relu()
        return self.layers[-1](self.dropout(x), edge_index)


class ResidualNetwork(nn.Module):
    """Blocks of norm, convolution, ReLU and dropout with a residual connection, between two linear maps.

    Args:
        convolution: "gcn", "sage" or "none" (a network of the features alone).
    """

    def __init__(
        self, channels: int, hidden: int, outputs: int, layers: int, dropout: float, *, convolution: str
    ) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(channels, hidden), nn.Linear(hidden, outputs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers))
        makes = {"gcn": GCNConv, "sage": SAGEConv, "none": nn.Linear}
        self.layers = nn.ModuleList(makes[convolution](hidden, hidden) for _ in range(layers))
        self.dropout, self.alone = nn.Dropout(dropout), convolution == "none"

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Scores `[N, C]`."""
        state = self.first(self.dropout(x)).relu()
        for norm, layer in zip(self.norms, self.layers):
            given = norm(state)
            state = state + self.dropout((layer(given) if self.alone else layer(given, edge_index)).relu())
        return self.last(state)


def neighbour_columns(x: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """A node's columns, the means of its neighbours' over the edges both ways, and the degrees, `[N, 2F + 1]`."""
    src, dst = torch.cat([edge_index, edge_index.flip(0)], 1)
    degree = torch.zeros(num_nodes).index_add_(0, dst, torch.ones(len(dst)))
    mean = torch.zeros_like(x).index_add_(0, dst, x[src]) / degree.clamp(min=1)[:, None]
    return torch.cat([x, mean, degree[:, None]], 1)
