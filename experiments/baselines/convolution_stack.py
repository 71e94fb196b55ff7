"""ConvolutionStack: PyG's convolutions one after the other, as peers of a schedule of the same depth."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GPSConv

from gpnn.engine import Plan
from gpnn.nn import MaskKey


class ConvolutionStack(nn.Module):
    """Encoder, `depth` convolutions with a residual around each, linear head; every node sends in every layer.

    Args:
        conv: a name of :data:`CONVOLUTIONS`.
        in_channels: number of features F.
        hidden_channels: width of the layers.
        out_channels: number of outputs C.
        depth: number of layers.
        seed: where the parameters start from.

    >>> import gpnn
    >>> ring = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> plan = gpnn.lower(ring, gpnn.schedule.synchronous(ring, rounds=2))
    >>> ConvolutionStack("gcn", 4, 8, 2, depth=2)(torch.ones(3, 4), plan).shape
    torch.Size([3, 2])
    """

    def __init__(
        self, conv: str, in_channels: int, hidden_channels: int, out_channels: int, *, depth: int, seed: int = 0
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.encoder = nn.Linear(in_channels, hidden_channels)
            self.layers = nn.ModuleList(CONVOLUTIONS[conv](hidden_channels) for _ in range(depth))
            self.head = nn.Linear(hidden_channels, out_channels)

    def forward(self, x: Tensor, plan: Plan, key: MaskKey | None = None) -> Tensor:
        """The scores of every node, `[N, C]`; the plan gives the graph alone."""
        graph = plan.schedule.graph
        edge_index = torch.stack([graph.src, graph.dst]).to(x.device)
        batch = torch.unique(graph.components(), return_inverse=True)[1].to(x.device)
        state = self.encoder(x)
        for layer in self.layers:
            state = layer(state, edge_index, batch)
        return self.head(state)


class _ResidualGCN(nn.Module):
    """h + ReLU(GCN(h)), normalised per node (Kipf and Welling 2017)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.conv = GCNConv(channels, channels)

    def forward(self, state: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        return state + self.conv(self.norm(state), edge_index).relu()


class _GPS(nn.Module):
    """PyG's GPSConv: a GIN layer and attention over all nodes of each graph (Rampášek et al. 2022)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        network = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.conv = GPSConv(channels, GINConv(network), heads=4)

    def forward(self, state: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        order = torch.argsort(batch, stable=True)  # attention takes the nodes of a graph one after the other
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        return self.conv(state[order], place[edge_index], batch[order])[place]


CONVOLUTIONS: dict[str, Callable[[int], nn.Module]] = {"gcn": _ResidualGCN, "gps": _GPS}
