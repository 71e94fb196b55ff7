"""What every test may request: the folder of real data, processes, and a small graph with its plan."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn
from torch_geometric.data import Data

import gpnn
from tests.oracle.planted import planted_graph
from tests.oracle.processes import Processes


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data that GPNN_DATA names; tests that need it skip where it is not there."""
    root = os.environ.get("GPNN_DATA")
    if not root or not (Path(root) / "planetoid").is_dir():
        pytest.skip("needs the real data: set GPNN_DATA to the folder that holds it")
    return Path(root)


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    """Four processes of torch.distributed on loopback: `processes(function, …, size=2)` runs it in the first two."""
    started = Processes()
    yield started
    started.close()


@pytest.fixture(scope="session")
def planted() -> Data:
    """A graph small enough to train on in a blink: three classes, most edges inside a class."""
    features = lambda y: nn.functional.one_hot(y, 3) * 1.5  # noqa: E731
    return planted_graph(90, 300, friends=0.9, features=features, splits=(15, 30))[0]


@pytest.fixture(scope="session")
def plan(planted: Data) -> gpnn.Plan:
    """A partitioned schedule of `planted`, lowered."""
    part = gpnn.partition_graph(planted, 3)
    return gpnn.lower(planted, gpnn.schedule.partitioned(planted, part, rounds=2))
