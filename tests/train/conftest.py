"""A graph small enough to train on in a blink: three classes whose nodes mostly know each other."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gpnn
from gpnn.nn import GPNN


def mask(nodes: Tensor, num_nodes: int) -> Tensor:
    return torch.zeros(num_nodes, dtype=torch.bool).index_fill_(0, nodes, True)


@pytest.fixture(scope="session")
def planted() -> Data:
    generator = torch.Generator().manual_seed(0)
    num_nodes, num_edges = 90, 300
    y = torch.arange(num_nodes) % 3
    src = torch.randint(num_nodes, (num_edges,), generator=generator)
    friend = torch.randint(num_nodes // 3, (num_edges,), generator=generator) * 3 + y[src]
    anyone = torch.randint(num_nodes, (num_edges,), generator=generator)
    dst = torch.where(torch.rand(num_edges, generator=generator) < 0.9, friend, anyone)
    x = nn.functional.one_hot(y, 3) * 1.5 + torch.randn(num_nodes, 3, generator=generator)
    shuffled = torch.randperm(num_nodes, generator=generator)
    return Data(
        x=x,
        y=y,
        edge_index=torch.stack([torch.cat([src, dst]), torch.cat([dst, src])]),
        train_mask=mask(shuffled[:15], num_nodes),
        val_mask=mask(shuffled[15:45], num_nodes),
        test_mask=mask(shuffled[45:], num_nodes),
        num_classes=3,
    )


@pytest.fixture(scope="session")
def plan(planted: Data) -> gpnn.Plan:
    part = gpnn.partition_graph(planted, 3)
    return gpnn.lower(planted, gpnn.schedule.partitioned(planted, part, rounds=2))


@pytest.fixture
def model() -> GPNN:
    return GPNN(3, 8, 3, dropout=0.3, drop_node=0.2)
