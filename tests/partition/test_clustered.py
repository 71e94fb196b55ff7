"""Parts of clusters: found on a CPU, and the same on a GPU."""

from itertools import pairwise

import pytest
import torch

from gpnn import Graph, partition_graph
from gpnn.csr import pointers
from gpnn.partition.clustered import Parts, _cut_ranges, cluster_parts, drop_loops
from gpnn.partition.neighbours import neighbours
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
    return pointers(torch.bincount(src, minlength=count)), dst[src.argsort(stable=True)].int()


def hash32(value: int) -> int:
    """lowbias32 (Wellons 2018) in Python's integers."""
    x = value & 0xFFFFFFFF
    x = ((x ^ x >> 16) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ x >> 15) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ x >> 16


def adopt_slowly(ptr, col, labels, closed, seed, number, sample):
    """One round of label propagation, node by node, as the kernels' docstrings define it."""
    out = list(labels)
    for node, own in enumerate(labels):
        row = col[ptr[node] : ptr[node + 1]]
        if len(row) > sample:
            row = [row[slot * len(row) // sample] for slot in range(sample)]
        theirs = [labels[other] for other in row]
        open_to_it = {label for label in theirs if label == own or not closed[label]}
        if hash32(node ^ number) & 1 or not open_to_it:
            continue
        best = max(open_to_it, key=lambda label: (theirs.count(label), hash32(label ^ seed) >> 22, label))
        if theirs.count(best) > theirs.count(own):
            out[node] = best
    return out


def arrays() -> list[torch.Tensor]:
    """`ptr`, `col`, labels and closed labels of a graph."""
    labels = torch.randint(8, (100,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    return [*communities(5, 20), labels, torch.arange(100) % 3 == 0]


@pytest.mark.parametrize("sample", [4, 64])
def test_a_round_is_the_slow_one(sample):
    from gpnn.partition.kernels import adopt_labels

    given, out = arrays(), torch.empty(100, dtype=torch.int32)
    adopt_labels(*(each.numpy() for each in (*given, out)), 77, 123456, sample)
    assert out.tolist() == adopt_slowly(*(each.tolist() for each in given), 77, 123456, sample)
    assert not torch.equal(out, given[2])


@needs_triton
@pytest.mark.parametrize("sample", [4, 64])
def test_a_gpu_s_round_is_the_slow_one(sample):
    from gpnn.partition.clustered_gpu import adopt_labels

    given, out = arrays(), torch.empty(100, dtype=torch.int32, device=DEVICE)
    on_device = [each.to(DEVICE, torch.int8 if each.dtype == torch.bool else each.dtype) for each in given]
    adopt_labels[(100,)](*on_device, out, 77, 123456, SAMPLE=sample)
    assert out.tolist() == adopt_slowly(*(each.tolist() for each in given), 77, 123456, sample)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_same_partition():
    ptr, col = communities(30, 40)
    graph = Graph(torch.repeat_interleave(torch.arange(1200), ptr.diff()), col.long(), num_nodes=1200)
    host, device = (partition_graph(graph, 6, "clustered", seed=5, device=where) for where in ("cpu", "cuda"))
    assert torch.equal(host.labels, device.labels)


def test_communities_stay_whole():
    ptr, col = communities(4, 12)
    parts = cluster_parts(ptr, col, 2, seed=1, rounds=8, refinements=2)
    assert parts.order.sort().values.tolist() == list(range(48))
    assert parts.ptr[-1] == 48
    labels = parts.labels().long()
    row = torch.repeat_interleave(torch.arange(48), ptr.diff())
    assert float((labels[row] != labels[col.long()]).float().mean()) < 0.1


def test_ranges_of_clusters():
    assert _cut_ranges(torch.tensor([3, 1, 2, 4, 2]), 3).tolist() == [0, 0, 1, 2, 2]


def test_labels_of_parts():
    parts = Parts(torch.tensor([2, 0, 1]), torch.tensor([0, 1, 3]))
    assert parts.labels().tolist() == [1, 1, 0]


def test_too_many_parts():
    with pytest.raises(ValueError, match="from 1 to the 2 nodes"):
        cluster_parts(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match=r"`device` must be cpu where torch finds no GPU\. Got 'cuda'\."):
        partition_graph(Graph([0], [1], num_nodes=2), 2, "clustered", device="cuda")


def test_loops_are_dropped_on_any_device(monkeypatch):
    monkeypatch.setattr("gpnn.partition.clustered.ROWS", 7)
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randint(30, (80,), generator=random) for _ in range(2))
    listed = Graph(torch.cat([a, b]), torch.cat([b, a]), 30)
    rows = listed.in_edges(with_edge=False)
    found = drop_loops(torch.from_numpy(rows.ptr), torch.from_numpy(rows.index))
    ptr, col = neighbours(listed)
    assert len(col) < 160
    assert found[0].tolist() == ptr.tolist()
    for start, stop in pairwise(ptr):
        assert sorted(found[1][start:stop].tolist()) == sorted(col[start:stop].tolist())
