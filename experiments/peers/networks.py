"""Networks of others: plain graph convolutions, and deep ones with residual connections and normalisation.

The convolutions are those of PyTorch Geometric's `GCNConv` and `SAGEConv`, over an adjacency that is made once and
features that stay sparse: the same numbers, several times sooner on a CPU.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from gpnn.graph import Graph
from gpnn.kernels import Operator, aggregate
from gpnn.nn.layers import FeatureLinear, MaskKey


def adjacency(graph: Graph, convolution: str) -> Operator | None:
    """The weights of "gcn", D^-½ (A + I) D^-½, or of "sage", D^-1 A, receivers by senders; None for "none"."""
    if convolution == "none":
        return None
    own = torch.arange(graph.num_nodes if convolution == "gcn" else 0)
    src, dst = torch.cat([graph.src, own]), torch.cat([graph.dst, own])
    degree = torch.bincount(dst, minlength=graph.num_nodes).clamp(min=1).float()
    weight = 1 / degree[dst] if convolution == "sage" else (degree[src] * degree[dst]).rsqrt()
    return Operator.from_edges(dst, src, weight, (graph.num_nodes, graph.num_nodes))


class Convolution(nn.Module):
    """ "gcn": A (x W) + b; "sage": (A x) W + x V + b; "none": x W + b, of states."""

    def __init__(self, channels: int, outputs: int, convolution: str) -> None:
        super().__init__()
        self.main = nn.Linear(channels, outputs)
        self.own = nn.Linear(channels, outputs, bias=False) if convolution == "sage" else None
        self.convolution = convolution

    def forward(self, x: Tensor, weights: Operator | None) -> Tensor:
        """States `[N, d]`."""
        if weights is None:
            return self.main(x)
        if self.own is not None:
            return self.main(aggregate(weights, x)) + self.own(x)
        return aggregate(weights, x @ self.main.weight.T) + self.main.bias


class PlainNetwork(nn.Module):
    """Kipf and Welling's network of `layers` convolutions."""

    def __init__(
        self, channels: int, hidden: int, outputs: int, layers: int, dropout: float, *, convolution: str
    ) -> None:
        super().__init__()
        widths = [hidden] * (layers - 1) + [outputs]
        self.first = FeatureLinear(channels, widths[0], _generator())
        self.layers = nn.ModuleList(Convolution(one, other, convolution) for one, other in pairwise(widths))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, weights: Operator) -> Tensor:
        """Scores `[N, C]`."""
        state = aggregate(weights, _encode(self, self.first, x))
        for layer in self.layers:
            state = layer(self.dropout(state.relu()), weights)
        return state


class ResidualNetwork(nn.Module):
    """Blocks of norm, convolution, ReLU and dropout with a residual connection, between two linear maps.

    Args:
        convolution: "gcn", "sage" or "none" (a network of the features alone).
    """

    def __init__(
        self, channels: int, hidden: int, outputs: int, layers: int, dropout: float, *, convolution: str
    ) -> None:
        super().__init__()
        self.first, self.last = FeatureLinear(channels, hidden, _generator()), nn.Linear(hidden, outputs)
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers))
        self.layers = nn.ModuleList(Convolution(hidden, hidden, convolution) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, weights: Operator | None) -> Tensor:
        """Scores `[N, C]`."""
        state = _encode(self, self.first, x).relu()
        for norm, layer in zip(self.norms, self.layers):
            state = state + self.dropout(layer(norm(state), weights).relu())
        return self.last(state)


class WideNetwork(nn.Module):
    """Luo et al.'s network: `layers` convolutions, normalisation, ReLU and dropout behind each, and a linear map.

    Args:
        convolution: "gcn".
        norm: whether there is a normalisation, of each row.
    """

    def __init__(
        self,
        channels: int,
        hidden: int,
        outputs: int,
        layers: int,
        dropout: float,
        *,
        convolution: str,
        norm: bool = True,
    ) -> None:
        super().__init__()
        widths = [channels] + [hidden] * layers
        self.layers = nn.ModuleList(Convolution(one, other, convolution) for one, other in pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) if norm else nn.Identity() for _ in range(layers))
        self.dropout, self.last = nn.Dropout(dropout), nn.Linear(hidden, outputs)

    def forward(self, x: Tensor, weights: Operator) -> Tensor:
        """Scores `[N, C]`."""
        state = x if x.layout == torch.strided else x.to_dense()
        for norm, layer in zip(self.norms, self.layers):
            state = self.dropout(norm(layer(state, weights)).relu())
        return self.last(state)


def _encode(network: PlainNetwork | ResidualNetwork, first: FeatureLinear, x: Tensor) -> Tensor:
    """The features, with dropout, through the first layer, `[N, d]`."""
    return first(x, network.dropout.p, MaskKey.random() if network.training else None)


def _generator() -> torch.Generator:
    """A generator of weights that follows torch's global one."""
    return torch.Generator().manual_seed(int(torch.randint(2**62, ())))


def neighbour_columns(x: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """A node's columns, the means of its neighbours' over the edges both ways, and the degrees, `[N, 2F + 1]`."""
    src, dst = torch.cat([edge_index, edge_index.flip(0)], 1)
    degree = torch.zeros(num_nodes).index_add_(0, dst, torch.ones(len(dst)))
    mean = torch.zeros_like(x).index_add_(0, dst, x[src]) / degree.clamp(min=1)[:, None]
    return torch.cat([x, mean, degree[:, None]], 1)
