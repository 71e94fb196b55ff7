"""Message functions M: what a node sends along an edge, one instance per edge type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gpnn.nn.layers import glorot


class Message(Protocol):
    """A message function."""

    def __call__(self, state: Tensor, edge_type: int) -> Tensor:
        """What nodes in these visible states, `[m, d]`, send along edges of this type, `[m, d]`."""


class IdentityMessage(nn.Module):
    """The state itself, along every type of edge."""

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        return state


class LinearMessage(nn.Module):
    """A linear map of the state, one per edge type.

    With one type, a node's message to itself (edge type −1) goes through the same map; with several it has a map of
    its own, the last one, as the root weight of R-GCN.

    Args:
        num_edge_types: number of edge types C.
    """

    def __init__(self, channels: int, num_edge_types: int, generator: torch.Generator) -> None:
        super().__init__()
        count = _instances(num_edge_types)
        self.weight = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        return state @ self.weight[_checked(edge_type, self.weight)]


class MLPMessage(nn.Module):
    """A network with one hidden ReLU layer, one per edge type; arguments as :class:`LinearMessage`."""

    def __init__(self, channels: int, num_edge_types: int, generator: torch.Generator) -> None:
        super().__init__()
        count = _instances(num_edge_types)
        self.hidden = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))
        self.weight = nn.Parameter(torch.stack([glorot(channels, channels, generator) for _ in range(count)]))
        self.bias = nn.Parameter(torch.zeros(count, channels))

    def forward(self, state: Tensor, edge_type: int) -> Tensor:
        number = _checked(edge_type, self.weight)
        hidden = torch.addmm(self.bias[number], state, self.hidden[number])
        return hidden.relu() @ self.weight[number]


def _instances(num_edge_types: int) -> int:
    return 1 if num_edge_types == 1 else num_edge_types + 1


def _checked(edge_type: int, instances: Tensor) -> int:
    """The edge type, unless the last instance, a node's own, would answer for it."""
    num_edge_types = max(1, len(instances) - 1)
    if edge_type >= num_edge_types:
        raise ValueError(
            f"The model knows edge types from 0 to {num_edge_types - 1}; make it with a larger `num_edge_types` "
            f"(virtual nodes need two more than the graph). Got type {edge_type}."
        )
    return edge_type


# Each is made from the width d of states and messages, the number of edge types and a generator of its weights.
MESSAGES: dict[str, Callable[[int, int, torch.Generator], Message]] = {
    "identity": lambda channels, num_edge_types, generator: IdentityMessage(),
    "linear": LinearMessage,
    "mlp": MLPMessage,
}
