"""A graph small enough to train on in a blink: three classes whose nodes mostly know each other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data


def planted_graph(
    num_nodes: int, num_edges: int, *, friends: float, features: Callable[[Tensor], Tensor], splits: tuple[int, int]
) -> tuple[Data, torch.Generator]:
    """The graph, both directions of each edge, and the generator to go on drawing from.

    Args:
        num_nodes: number of nodes, a multiple of three.
        num_edges: number of pairs.
        friends: share of the pairs within a class.
        features: the mean of each node's features, `[N, F]`, given the classes.
        splits: how many nodes train, and how many validate; the rest test.
    """
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(num_nodes) % 3
    src = torch.randint(num_nodes, (num_edges,), generator=generator)
    friend = torch.randint(num_nodes // 3, (num_edges,), generator=generator) * 3 + y[src]
    anyone = torch.randint(num_nodes, (num_edges,), generator=generator)
    dst = torch.where(torch.rand(num_edges, generator=generator) < friends, friend, anyone)
    mean = features(y)
    x = mean + torch.randn(mean.shape, generator=generator)
    drawn = torch.randperm(num_nodes, generator=generator).tensor_split([splits[0], sum(splits)])
    everyone = torch.arange(num_nodes)
    masks = {f"{name}_mask": torch.isin(everyone, own) for name, own in zip(("train", "val", "test"), drawn)}
    edge_index = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    return Data(x=x, y=y, edge_index=edge_index, num_classes=3, **masks), generator
