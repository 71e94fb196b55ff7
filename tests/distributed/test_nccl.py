"""NCCL, in the one process that a machine with one GPU can have: rows that it sends to itself, and their gradients."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from gpnn.distributed import ProcessGroup
from gpnn.distributed.halo_exchange import HaloExchange

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
BACKEND = "cpu:gloo,cuda:nccl"


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    torch.cuda.set_device(0)
    dist.init_process_group(BACKEND, store=dist.HashStore(), rank=0, world_size=1)
    yield ProcessGroup(dist.new_group(backend=BACKEND))
    dist.destroy_process_group()


def test_rows_and_their_gradients(group: ProcessGroup) -> None:
    rows = torch.tensor([3, 1, 4, 1], device="cuda")
    state = torch.randn(6, 8, device="cuda", requires_grad=True)
    received = HaloExchange(group, rows, [4], [4]).start(state).wait()
    assert group.backend == "nccl"
    assert torch.equal(received, state[rows])
    weight = torch.randn(4, 8, device="cuda")
    (ours,) = torch.autograd.grad((received * weight).sum(), state)
    (theirs,) = torch.autograd.grad((state[rows] * weight).sum(), state)
    torch.testing.assert_close(ours, theirs)


def test_sums_of_gradients_and_counts(group: ProcessGroup) -> None:
    """What a group of several does with parameters, here over one."""
    values = torch.randn(5, device="cuda")
    here = values.clone()
    dist.all_reduce(here, group=group.handle)
    dist.broadcast(here, group=group.handle, group_src=0)
    assert torch.equal(here, values)
    assert group.device == values.device
