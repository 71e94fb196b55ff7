"""A probe counts what a pass keeps, and keeps nothing itself."""

import gc

import pytest
import torch

import gpnn
from gpnn.memory.probe import probe


@pytest.mark.parametrize("cell", ["linear", "gru"])
def test_a_probe_leaves_no_tensor_behind(planted, plan, cell):
    """A cycle through autograd's graph is one that the garbage collector does not see."""
    model = gpnn.nn.GPNN(planted.x.shape[1], 4, 3, cell=cell, num_rounds=2)

    def count() -> int:
        gc.collect()
        return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

    probe(model, planted.x.float(), plan)
    before = count()
    for _ in range(3):
        probe(model, planted.x.float(), plan)
    assert count() <= before
