"""No kernel and no runner makes a tensor of [edges, width]."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import gpnn
from gpnn import Graph
from gpnn.engine import propagate
from gpnn.nn.cell import build_cell

NODES, EDGES, WIDTH = 200, 20_000, 8


class Largest(TorchDispatchMode):
    """Records the number of entries of the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, tuple | list) else [out]:
            if isinstance(value, torch.Tensor):
                self.entries = max(self.entries, value.numel())
        return out


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_the_largest_tensor_does_not_grow_with_edges_times_width(runner):
    random = torch.Generator().manual_seed(0)
    src, dst = torch.randint(NODES, (2, EDGES), generator=random)
    graph = Graph(src, dst, NODES, torch.randint(2, (EDGES,), generator=random), torch.rand(EDGES, generator=random))
    schedule = gpnn.schedule.partitioned(graph, torch.arange(NODES) % 3, rounds=2, intra=2)
    plan = gpnn.lower(graph, schedule, normalization="split")
    for update, message, aggregate in (("gru", "mlp", "mean"), ("lstm", "linear", "sum"), ("gcnii", "identity", "max")):
        cell = build_cell(message, update, aggregate, {}, WIDTH, 2, random)
        state = torch.randn(NODES, WIDTH, generator=random, requires_grad=True)
        propagate(cell, plan, state, runner=runner)  # builds the blocks, whose index arrays have an entry an edge
        with Largest() as largest:
            propagate(cell, plan, state, runner=runner).sum().backward()
        assert 4 * WIDTH * NODES / 3 < largest.entries <= EDGES  # gates of a block are seen; edges times width is not


def test_the_recorder_sees_what_the_engine_must_not_make():
    with Largest() as largest:
        x = torch.ones(NODES, WIDTH, requires_grad=True)
        x[torch.zeros(EDGES, dtype=torch.int64)].sum().backward()
    assert largest.entries == EDGES * WIDTH
