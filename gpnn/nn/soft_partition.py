"""Soft partitions: the probabilities of each node over K subgraphs, and the partition that they harden to."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gpnn.graph import Graph
from gpnn.kernels import Operator, aggregate
from gpnn.nn.layers import FeatureLinear
from gpnn.partition import Partition

WIDTH, STEPS, BETWEEN = 64, 60, 5  # of the random vectors that encode the structure


class FreeAssignment(nn.Module):
    """A score of each node for each subgraph, all of them parameters.

    Args:
        structure: an encoding of the nodes, of which only their number is used, `[N, r]`.
        in_channels: number of features; they are not used.
        num_parts: number of subgraphs K.
        generator: where the scores start from.
    """

    def __init__(self, structure: Tensor, in_channels: int, num_parts: int, generator: torch.Generator) -> None:
        super().__init__()
        self.scores = nn.Parameter(0.1 * torch.randn(len(structure), num_parts, generator=generator))

    def forward(self, x: Tensor | None) -> Tensor:
        """The scores, `[N, K]`."""
        return self.scores


class NetworkAssignment(nn.Module):
    """Scores by a network with one hidden ReLU layer over a node's place in the graph and its features.

    Args:
        structure: an encoding of the nodes by their place, as :func:`encode_structure` gives it, `[N, r]`.
        in_channels: number of features F; 0: none.
        num_parts: number of subgraphs K.
        generator: where the weights start from.
    """

    structure: Tensor

    def __init__(
        self,
        structure: Tensor,
        in_channels: int,
        num_parts: int,
        generator: torch.Generator,
        hidden_channels: int = 64,
    ) -> None:
        super().__init__()
        self.register_buffer("structure", structure)
        self.from_structure = FeatureLinear(structure.shape[1], hidden_channels, generator)
        self.from_features = FeatureLinear(in_channels, hidden_channels, generator, bias=False) if in_channels else None
        self.to_parts = FeatureLinear(hidden_channels, num_parts, generator)

    def forward(self, x: Tensor | None) -> Tensor:
        """The scores, `[N, K]`, given the features `[N, F]`."""
        hidden = self.from_structure(self.structure)
        if self.from_features is not None:
            hidden = hidden + self.from_features(x)
        return self.to_parts(hidden.relu())


# Each is made from an encoding of the structure `[N, r]`, the number of features, K and a generator.
ASSIGNMENTS: dict[str, Callable[[Tensor, int, int, torch.Generator], nn.Module]] = {
    "network": NetworkAssignment,
    "free": FreeAssignment,
}


def encode_structure(graph: Graph, generator: torch.Generator, width: int = WIDTH, steps: int = STEPS) -> Tensor:
    """Rows of length √r that are alike for nodes near each other, float32, `[N, r]`.

    Random vectors after some steps of a lazy random walk, made orthogonal between the steps: an approximation of its
    slowest modes. Directions, types and weights of edges are ignored.

    Args:
        graph: N nodes.
        generator: of the random vectors.
        width: number of vectors r, at most N.
        steps: of the walk.
    """
    others = graph.src != graph.dst
    ends = torch.cat([graph.src[others], graph.dst[others]]), torch.cat([graph.dst[others], graph.src[others]])
    walk = Operator.from_edges(*ends, torch.ones(len(ends[0])), (graph.num_nodes, graph.num_nodes))
    degree = walk.ptr.diff()[:, None]
    vectors = torch.randn(graph.num_nodes, min(width, graph.num_nodes), generator=generator)
    for step in range(steps):
        arrived = aggregate(walk, vectors) / degree.clamp(min=1)
        vectors = torch.where(degree > 0, 0.5 * (vectors + arrived), vectors)
        if step % BETWEEN == BETWEEN - 1:
            vectors = torch.linalg.qr(vectors)[0]
    length = vectors.norm(dim=1, keepdim=True).clamp(min=1e-30)
    return vectors / length * vectors.shape[1] ** 0.5


def harden(probabilities: Tensor) -> Partition:
    """The partition in which each node is in its most probable subgraph; none is empty where there are nodes enough.

    Args:
        probabilities: of each node over the subgraphs, `[N, K]`.

    >>> harden(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])).labels.tolist()
    [0, 0, 1]
    """
    from gpnn.partition.multilevel.rebalance import fill_empty

    num_nodes, num_parts = probabilities.shape
    labels = probabilities.detach().argmax(1).cpu().numpy()
    if num_parts <= num_nodes:
        fill_empty(labels, num_parts)
    return Partition(torch.from_numpy(labels), num_parts)
