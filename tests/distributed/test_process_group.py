"""A process that torchrun did not start is a group of size 1: every collective returns what it was given."""

import torch
from torch import nn

from gpnn.distributed import SINGLE, ProcessGroup
from gpnn.train.optimizer import clip_gradients


def test_collectives_of_one_process() -> None:
    values = torch.tensor([3.0, -1.0])
    assert (SINGLE.rank, SINGLE.size) == (0, 1)
    for given in (SINGLE.all_reduce, SINGLE.all_reduce_max, SINGLE.broadcast):
        assert given(values).equal(values)
    for gathered in (SINGLE.all_gather(values), SINGLE.gather(values)):
        assert len(gathered) == 1
        assert gathered[0].equal(values)
    assert SINGLE.all_gather_counts(7) == [7]
    assert SINGLE.any(True, False) == (True, False)
    SINGLE.barrier()


def sum_alone(group: ProcessGroup) -> float:
    return float(SINGLE.all_reduce(torch.tensor(group.rank + 1.0)))


def test_one_process_of_several_may_train_alone(processes) -> None:
    """A whole graph's training does not add up with those of other processes that torchrun started."""
    assert processes(sum_alone, size=4) == [1.0, 2.0, 3.0, 4.0]


def test_clipping_has_the_bits_of_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(30, 20), nn.Linear(30, 20)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(50, 30)
    for model in (ours, theirs):
        model(x).square().sum().backward()
    assert clip_gradients(ours, 0.5) == float(nn.utils.clip_grad_norm_(theirs.parameters(), 0.5))
    assert all(a.grad.equal(b.grad) for a, b in zip(ours.parameters(), theirs.parameters()))
