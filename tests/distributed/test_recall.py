"""Recall at k over processes is that of the whole."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gpnn import load_dataset, partition_graph
from gpnn.build.shard_data import read_own, write_data
from gpnn.data import recall_at_k
from gpnn.distributed import ProcessGroup, lower_shard, read_index
from gpnn.distributed.recall import recall_of_shards


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
    data = load_dataset("diel_like", scale=0.001)
    data.recall_k = k
    write_data(data, partition_graph(data, 6, "random"), 2, tmp_path / "shards", name="diel_like")
    expected = recall_at_k(data, scores(data))
    assert 0 < expected < 1
    assert processes(recall_case, tmp_path / "shards", scores(data), size=2) == [expected] * 2
    assert processes(recall_case, tmp_path / "shards", scores(data), size=4) == [expected] * 4
