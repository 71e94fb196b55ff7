"""Clusters found on a GPU, or by Triton's interpreter on a CPU."""

import pytest
import torch

from gpnn.partition.clustered import Parts, _cut_runs, cluster_parts
from tests.kernels.triton_device import DEVICE, needs_triton


def communities(num: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Dense communities with a few edges between them, ids shuffled, as CSR arrays."""
    random = torch.Generator().manual_seed(0)
    count = num * size
    inside = torch.randint(size, (6 * count,), generator=random)
    first = torch.arange(count).repeat(6)
    second = first // size * size + inside
    strays = torch.randint(count, (2, count // 10), generator=random)
    name = torch.randperm(count, generator=random)
    a, b = name[torch.cat([first, strays[0]])], name[torch.cat([second, strays[1]])]
    src, dst = torch.cat([a, b]), torch.cat([b, a])
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(src, minlength=count).cumsum(0)])
    return ptr, dst[src.argsort(stable=True)].int()


@needs_triton
def test_communities_stay_whole() -> None:
    ptr, col = communities(4, 12)
    parts = cluster_parts(ptr.to(DEVICE), col.to(DEVICE), 2, seed=1, turns=8, refinements=2)
    assert parts.order.sort().values.tolist() == list(range(48))
    assert parts.ptr[-1] == 48
    labels = parts.labels().cpu().long()
    row = torch.repeat_interleave(torch.arange(48), ptr.diff())
    assert float((labels[row] != labels[col.long()]).float().mean()) < 0.1


def test_runs_of_clusters() -> None:
    assert _cut_runs(torch.tensor([3, 1, 2, 4, 2]), 3).tolist() == [0, 0, 1, 2, 2]


def test_labels_of_parts() -> None:
    parts = Parts(torch.tensor([2, 0, 1]), torch.tensor([0, 1, 3]))
    assert parts.labels().tolist() == [1, 1, 0]


def test_too_many_parts() -> None:
    with pytest.raises(ValueError, match="from 1 to the 2 nodes"):
        cluster_parts(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 3)
