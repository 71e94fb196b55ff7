"""The schedules that processes make of their shards are, put together, that of the whole graph."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.build.shard_data import read_own, write_data
from gpnn.data import recall_at_k
from gpnn.distributed import ProcessGroup, lower_shard, read_index
from gpnn.distributed.schedules import SHARD_SCHEDULES, recall_of_shards
from tests.oracle.sharded_cases import quality_case, share_case

LABELS = [0, 0, 1, 1, 2, 2, 3, 3]
ONE_WAY = ([0, 1, 1, 3, 3, 4, 6], [1, 0, 2, 2, 5, 3, 7])  # the last rank's subgraphs send nothing and receive nothing
NO_CUT = ([0, 2, 4, 6], [1, 3, 5, 7])
NO_INSIDE = ([1, 3, 5], [2, 4, 6])
OPTIONS = [
    ("synchronous", {}),
    ("partitioned", {}),
    ("partitioned", {"intra": 3, "cut": 2}),
    ("partitioned", {"update": "receivers"}),
    ("partitioned", {"intra": 0}),
    ("partitioned", {"cut": 0}),
    ("held_cut", {"intra": 3}),
]


def test_every_schedule_is_tried():
    assert {name for name, _ in OPTIONS} == set(SHARD_SCHEDULES)


@pytest.mark.parametrize("edges", [ONE_WAY, NO_CUT, NO_INSIDE], ids=["one way", "no cut", "no inside"])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.thorough
def test_shares_make_up_the_whole(processes, edges, name, options, size):
    """Every process has the same phases, in order, and each edge and node of a phase is in one process."""
    graph = gpnn.Graph(*edges, num_nodes=len(LABELS))
    part = () if name == "synchronous" else (LABELS,)
    whole = gpnn.schedule.SCHEDULES[name](graph, *part, rounds=2, **options)
    shares = processes(share_case, edges, LABELS, name, options, size=size)
    for phase, *parts in zip(whole.rounds[0], *shares, strict=True):
        assert {each[:2] for each in parts} == {(phase.kind, phase.repeat)}
        assert sorted(id for each in parts for id in each[2]) == sorted(phase.edges.tolist())
        assert sorted(id for each in parts for id in each[3]) == sorted(phase.nodes.tolist())
        assert sorted(id for each in parts for id in each[4]) == (
            [] if phase.held is None else sorted(phase.held.tolist())
        )


def test_virtual_nodes_and_other_schedules_are_refused(processes):
    with pytest.raises(AssertionError, match="Several processes have no virtual nodes"):
        processes(share_case, ONE_WAY, LABELS, "partitioned", {"virtual": "graph"}, size=2)
    with pytest.raises(
        AssertionError, match="can run the schedules partitioned, held_cut, synchronous from a folder of shards"
    ):
        processes(share_case, ONE_WAY, LABELS, "sequential", {}, size=2)
    with pytest.raises(AssertionError, match=r"must be one of intra, cut, update, virtual\. Got inner"):
        processes(share_case, ONE_WAY, LABELS, "partitioned", {"inner": 1}, size=2)


FIGURES = ("num_parts", "edge_cut", "balance", "edge_balance", "num_cut_edges", "num_cut_nodes", "num_empty")
COLUMNS = ("sizes", "edge_ends", "halo", "conductance", "train_labels")


def random_graph(seed: int) -> tuple[gpnn.Graph, gpnn.Partition]:
    """Forty nodes with parallel edges and self-loops in seven subgraphs, one of them empty."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(40, (2, 130), generator=generator)
    labels = torch.randint(6, (40,), generator=generator)
    return gpnn.Graph(src, dst, num_nodes=40), gpnn.Partition(labels + (labels > 2), num_parts=7)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_counts_are_those_of_the_whole(processes, size):
    for seed in range(3):
        graph, part = random_graph(seed)
        train = torch.arange(0, 40, 3)
        whole = part.quality(graph, torch.isin(torch.arange(40), train))
        parts = sorted(zip(*(getattr(whole, name) for name in COLUMNS)))
        for found in processes(quality_case, graph.src, graph.dst, part.labels, train, size=size):
            for name in FIGURES:
                assert getattr(found, name) == pytest.approx(getattr(whole, name)), name
            ours = sorted(zip(*(getattr(found, name) for name in COLUMNS)))  # numbered in the node order
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(parts))


def scores(data: Data) -> torch.Tensor:
    """Probabilities with many ties."""
    drawn = torch.randint(0, 4, (data.num_nodes, data.num_classes), generator=torch.Generator().manual_seed(1))
    return torch.softmax(drawn.float(), 1)


def recall_case(group: ProcessGroup, folder: Path, probabilities: torch.Tensor) -> float:
    index = read_index(folder)
    shard, data = read_own(index, group)
    return recall_of_shards(data, lower_shard(shard, group), probabilities[shard.nodes])


@pytest.mark.parametrize("k", [300, 1000, 100_000])
def test_recall_of_shards(processes, tmp_path, k):
    data = gpnn.load_dataset("diel_like", scale=0.001)
    data.recall_k = k
    write_data(data, gpnn.partition_graph(data, 6, "random"), 2, tmp_path / "shards", name="diel_like")
    expected = recall_at_k(data, scores(data))
    assert 0 < expected < 1
    assert processes(recall_case, tmp_path / "shards", scores(data), size=2) == [expected] * 2
    assert processes(recall_case, tmp_path / "shards", scores(data), size=4) == [expected] * 4
