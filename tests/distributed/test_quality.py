"""Processes that know their own subgraphs only count what one that knows all would measure."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.build.shard_data import read_own, write_data
from gpnn.data import recall_at_k
from gpnn.distributed import ProcessGroup, lower_shard, read_index
from gpnn.distributed.quality import recall_of_shards
from tests.oracle.sharded_cases import quality_case

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
