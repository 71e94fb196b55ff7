"""A graph with several labels per node: friends share a label, and features are the labels in noise."""

import torch
from torch import Tensor
from torch_geometric.data import Data


def multi_hot_graph(num_nodes: int = 120, num_labels: int = 4) -> Data:
    """A quarter of the nodes train, a quarter validates, three eighths test, and the last eighth is unlabelled."""
    generator = torch.Generator().manual_seed(0)
    y = (torch.rand(num_nodes, num_labels, generator=generator) < 0.4).float()
    src, dst = torch.randint(num_nodes, (2, 20 * num_nodes), generator=generator)
    friends = (y[src] * y[dst]).sum(1) > 1
    src, dst = src[friends], dst[friends]
    x = (y + 0.3 * torch.randn(num_nodes, num_labels, generator=generator)).clamp(min=0)
    y[-num_nodes // 8 :] = -1
    edge_index = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    quarter = num_nodes // 4
    masks = {
        "train_mask": _between(0, quarter, num_nodes),
        "val_mask": _between(quarter, 2 * quarter, num_nodes),
        "test_mask": _between(2 * quarter, num_nodes - num_nodes // 8, num_nodes),
    }
    return Data(x=x, y=y, edge_index=edge_index, **masks)


def _between(first: int, last: int, num_nodes: int) -> Tensor:
    node = torch.arange(num_nodes)
    return (node >= first) & (node < last)
