"""A dataset through a folder of shards and back: features, labels, masks and names."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gpnn
from gpnn.build.shard_data import read_data, shard_notes, write_data
from gpnn.data.features import float_features
from gpnn.distributed import read_index, read_shard


@pytest.mark.parametrize(
    "names",
    [None, np.array([30, 10, 20, 40]), np.array(["Ann", "Böb", "", "a longer name"], dtype=object)],
    ids=["none", "integers", "texts"],
)
def test_every_node_comes_back_once(tmp_path, names):
    data = Data(
        x=torch.eye(4),
        y=torch.tensor([0, 1, -1, 1]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        train_mask=torch.tensor([True, True, False, False]),
        num_classes=2,
        class_names=["no", "yes"],
    )
    if names is not None:
        data.node_name = names
    index = write_data(data, gpnn.Partition([0, 0, 1, 1], 2), 2, tmp_path / "shards", name="four")
    assert index.facts["name"] == "four"
    found = {}
    for rank in range(2):
        shard, columns = read_shard(read_index(tmp_path / "shards"), rank, 2)
        own = read_data(index, columns, shard.num_own)
        assert own.class_names == ["no", "yes"]
        for row, node in enumerate(shard.nodes.tolist()):
            name = None if names is None else own.node_name[row]
            found[node] = (own.x[row].tolist(), int(own.y[row]), bool(own.train_mask[row]), name)
    given = [None] * 4 if names is None else list(names)
    wanted = zip(data.x.tolist(), data.y.tolist(), data.train_mask.tolist(), given)
    assert found == dict(enumerate(wanted))


def test_features_of_8_bits_keep_their_scale(tmp_path):
    data = Data(x=torch.eye(4).to(torch.int8), x_scale=torch.arange(4.0), y=torch.tensor([0, 1, 0, 1]), num_classes=2)
    data.edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    index = write_data(data, gpnn.Partition([0, 0, 1, 1], 2), 2, tmp_path / "shards", name="four")
    shard, columns = read_shard(read_index(tmp_path / "shards"), 0, 2)
    own = read_data(index, columns, shard.num_own)
    assert torch.equal(float_features(own), data.x[shard.nodes] * data.x_scale)


@pytest.mark.parametrize("key", ["notes", "remarks"])
def test_notes_of_older_folders_are_read_too(tmp_path, key):
    data = Data(x=torch.eye(2), y=torch.tensor([1, 1]), edge_index=torch.tensor([[0, 1], [1, 0]]), num_classes=2)
    data.train_mask, data.val_mask, data.notes = torch.tensor([True, False]), torch.tensor([False, True]), ["drawn"]
    index = write_data(data, gpnn.Partition([0, 1], 2), 1, tmp_path / "shards", name="two")
    facts = dict(index.facts)
    facts[key] = facts.pop("notes")
    assert [note.what for note in shard_notes(replace(index, facts=facts), "linear")] == ["drawn"]
