"""A graph small enough to train on in a blink: three classes whose nodes mostly know each other."""

import pytest
from torch import nn
from torch_geometric.data import Data

import gpnn
from gpnn.nn import GPNN
from tests.oracle.planted import planted_graph


@pytest.fixture(scope="session")
def planted() -> Data:
    features = lambda y: nn.functional.one_hot(y, 3) * 1.5  # noqa: E731
    return planted_graph(90, 300, friends=0.9, features=features, splits=(15, 30))[0]


@pytest.fixture(scope="session")
def plan(planted: Data) -> gpnn.Plan:
    part = gpnn.partition_graph(planted, 3)
    return gpnn.lower(planted, gpnn.schedule.partitioned(planted, part, rounds=2))


@pytest.fixture
def model() -> GPNN:
    return GPNN(3, 8, 3, dropout=0.3, drop_node=0.2)
