"""A folder of shards gives back what was cut, to as many processes as one likes."""

import json

import pytest
import torch

import gpnn
from gpnn.data.features import csr_tensor
from gpnn.distributed import NodeOrder, ShardBuilder
from gpnn.distributed.read_shard import read_shard
from gpnn.distributed.shard_folder import read_index, write_shards
from gpnn.storage.read import seal
from tests.oracle.engine_cases import multigraph

LABELS = [0, 3, 1, 0, 3, 1, 0, 1, 3, 3]  # part 2 is empty


def columns(num_nodes=10):
    random = torch.Generator().manual_seed(0)
    dense = torch.rand(num_nodes, 3, generator=random)
    sparse = dense * (dense > 0.5)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), (sparse != 0).sum(1).cumsum(0)])
    col = sparse.nonzero()[:, 1]
    values = sparse[sparse != 0]
    return {
        "x": csr_tensor(ptr.numpy(), col.numpy(), values.numpy(), (num_nodes, 3)),
        "y": torch.arange(num_nodes),
        "train_mask": torch.arange(num_nodes) % 2 == 0,
        "z": dense,
    }


@pytest.fixture
def folder(tmp_path):
    graph = multigraph()
    order = NodeOrder.of(graph, gpnn.Partition(LABELS, 4), 2)
    write_shards(tmp_path / "shards", graph, order, columns(), {"num_classes": 3})
    return tmp_path / "shards"


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_any_number_of_processes_reads_what_would_be_cut(folder, num_ranks):
    graph = multigraph()
    order = NodeOrder.of(graph, gpnn.Partition(LABELS, 4), num_ranks)
    index = read_index(folder)
    assert index.facts == {"num_classes": 3}
    for rank in range(num_ranks):
        wanted = ShardBuilder(graph, order).build(rank)
        shard, found = read_shard(index, rank, num_ranks)
        assert shard.totals == wanted.totals == (10, 32, 3, 4)
        assert shard.num_own == wanted.num_own
        for name in ("nodes", "halo", "bounds", "part_ptr", "edges"):
            assert getattr(shard, name).tolist() == getattr(wanted, name).tolist(), name
        for name in ("src", "dst", "edge_type", "edge_weight"):
            assert torch.equal(getattr(shard.graph, name), getattr(wanted.graph, name)), name
        for name, whole in columns().items():
            assert torch.equal(found[name].to_dense(), whole.to_dense()[wanted.nodes]), name
            assert found[name].layout == whole.layout


def test_shards_know_the_edges_into_their_rows():
    """A chain 0 → 1 → 2 → 3 in two shards: the second receives node 1 from the first."""
    graph = gpnn.Graph([0, 1, 2], [1, 2, 3], num_nodes=4)
    builder = ShardBuilder(graph, NodeOrder.of(graph, gpnn.Partition([0, 0, 1, 1], 2), 2))
    first, second = builder.build(0), builder.build(1)
    assert first.nodes.tolist() == [0, 1]
    assert first.halo.tolist() == []
    assert second.halo.tolist() == [1]
    assert second.graph.src.tolist() == [2, 0]  # the halo row comes after the two own ones
    assert second.graph.dst.tolist() == [0, 1]


def test_mistakes_are_named(folder):
    index = read_index(folder)
    with pytest.raises(ValueError, match=r"at least one subgraph per process: at least 4\. Got 3"):
        read_shard(index, 0, 4)
    graph = multigraph()
    order = NodeOrder.of(graph, gpnn.Partition(LABELS, 4), 2)
    with pytest.raises(ValueError, match="must be new"):
        write_shards(folder, graph, order, {}, {})
    (folder.parent / "nodes.csv").touch()
    with pytest.raises(ValueError, match=r"must be new or empty\. '.*' holds nodes\.csv\."):
        write_shards(folder.parent, graph, order, {}, {})
    with pytest.raises(ValueError, match=r"must hold shards\.json"):
        read_index(folder.parent)
    (folder / "shard-00001-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match="must hold shard-00001-of-00002"):
        read_shard(index, 1, 2)
    (folder / "shards.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match="damaged"):
        read_index(folder)


def test_a_refusal_quotes_little_of_the_file(folder):
    found = json.loads((folder / "shards.json").read_text())
    found["totals"]["num" + "9" * 5000] = 1
    found.pop("sha256")
    (folder / "shards.json").write_text(json.dumps(seal(found)))
    with pytest.raises(ValueError, match="damaged") as refusal:
        read_index(folder)
    assert len(str(refusal.value)) < 400 + len(str(folder))
