"""Every check: facts that it has a note on, and the nearest that it has none on."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from gpnn import Graph
from gpnn.data.features import transform_data
from gpnn.partition import Partition
from gpnn.train.notes import CHECKS, Facts, Note, count_one_way, overfitting_notes, take_notes
from tests.oracle.small_graphs import graphs

QUIET = Facts(num_one_way=0, num_edge_types=1, num_edge_attributes=0, num_validation=9, num_parts=10, largest_part=0.1)

NOTED = {
    "one-way edges": ({"num_one_way": 3}, {"num_one_way": 0}, "3 edges have no reverse", "data.undirected=true"),
    "merged edge types": (
        {"num_edge_types": 4, "message": "identity"},
        {"num_edge_types": 4, "message": "linear"},
        "4 edge types count as one",
        "model.message=linear",
    ),
    "unused edge attributes": (
        {"num_edge_attributes": 2},
        {"num_edge_attributes": 0},
        "edge_attr, of 2 columns, is refused by a training",
        "edge_weight",
    ),
    "no validation": ({"num_validation": 0}, {"num_validation": None}, "no node validates", "split"),
    "unseen classes": (
        {"num_unseen_classes": 2},
        {"num_unseen_classes": 0},
        "2 classes of validation or test nodes have no training node",
        "training nodes of these classes",
    ),
    "rare classes": (
        {"num_rare_classes": 2},
        {"num_rare_classes": 0},
        "2 classes have fewer than 5 training nodes",
        "train.class_weight=balanced",
    ),
    "degenerate partition": (
        {"num_parts": 42, "largest_part": 0.77},
        {"num_parts": 42, "largest_part": 5 / 42},
        "the largest of 42 subgraphs has 77 % of the nodes, 32.3 times the mean",
        "partition.method=refined",
    ),
}


def test_a_rare_class_has_few_training_nodes_and_not_none():
    y, mask = torch.tensor([0] * 15 + [1] * 4 + [2] * 9), torch.ones(28, dtype=torch.bool)
    mask[19:] = False
    edge_index = torch.zeros(2, 0, dtype=torch.int64)
    data = Data(y=y, train_mask=mask, num_nodes=28, edge_index=edge_index)
    assert Facts.of(data).num_rare_classes == 1
    data.train_mask[4:15] = False  # where all have few, none is rare
    assert Facts.of(data).num_rare_classes == 0


@pytest.mark.parametrize("name", CHECKS)
def test_each_check_has_its_note(name):
    noted, silent, what, setting = NOTED[name]
    (note,) = take_notes(replace(QUIET, **noted))
    assert what in note.what
    assert setting in note.setting
    assert note.argument
    assert take_notes(replace(QUIET, **silent)) == []


def test_a_few_subgraphs_are_degenerate_when_one_holds_three_quarters():
    assert take_notes(replace(QUIET, num_parts=2, largest_part=0.7)) == []
    assert len(take_notes(replace(QUIET, num_parts=2, largest_part=0.8))) == 1
    assert take_notes(replace(QUIET, num_parts=1, largest_part=1.0)) == []


def test_notes_on_the_data_come_first():
    notes = take_notes(replace(QUIET, num_one_way=1), ["split drawn"])
    assert notes[0] == Note("split drawn")
    assert [str(note).split(";")[-1] for note in notes] == ["split drawn", " data.undirected=true adds it"]


def test_facts_are_those_of_the_data():
    data = Data(
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]]),
        edge_type=torch.tensor([0, 1, 1, 2]),
        edge_attr=torch.ones(4, 3),
        y=torch.tensor([0, 1, -1]),
        val_mask=torch.tensor([False, True, False]),
        num_nodes=3,
    )
    facts = Facts.of(data, Partition([0, 1, 1], 2), "linear")
    assert facts == Facts(1, 3, 3, num_validation=1, num_parts=2, largest_part=2 / 3, message="linear")
    bare = Facts.of(Data(edge_index=data.edge_index, num_nodes=3))
    assert bare == Facts(1, 1, 0)


@pytest.mark.parametrize("several", [False, True])
def test_classes_that_training_lacks_are_counted(several):
    y = torch.tensor([0, 1, 2, 3, -1])
    if several:
        y = torch.nn.functional.one_hot(y.clamp(min=0)).where(y[:, None] >= 0, -1)
    masks = {"train_mask": [0, 1], "val_mask": [2], "test_mask": [1, 3, 4]}
    data = Data(edge_index=torch.tensor([[0], [1]]), y=y, num_nodes=5)
    for name, nodes in masks.items():
        data[name] = torch.isin(torch.arange(5), torch.tensor(nodes))
    assert Facts.of(data).num_unseen_classes == 2
    data.train_mask[:] = True
    assert Facts.of(data).num_unseen_classes == 0
    data.y = torch.rand(5)
    assert Facts.of(data).num_unseen_classes == 0


def test_one_column_of_floats_is_the_weight_of_the_edges():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    columns = {
        "weight": (torch.ones(2), 0),
        "column": (torch.ones(2, 1), 0),
        "whole": (torch.ones(2).long(), 1),
        "wide": (torch.ones(2, 5), 5),
    }
    for values, unused in columns.values():
        data = Data(edge_index=edge_index, edge_attr=values, num_nodes=3)
        assert Facts.of(data).num_edge_attributes == unused
        assert Facts.of(transform_data(data, undirected=True)).num_edge_attributes == unused
    both = Data(edge_index=edge_index, edge_attr=torch.ones(2), edge_weight=torch.ones(2), num_nodes=3)
    assert Facts.of(both).num_edge_attributes == 1


@settings(max_examples=100, deadline=None)
@given(graphs(max_nodes=6, max_edges=14))
def test_one_way_edges_are_distinct_edges_without_a_reverse(graph):
    edges = {(u, v) for u, v in zip(graph.src.tolist(), graph.dst.tolist()) if u != v}
    wanted = sum((v, u) not in edges for u, v in edges)
    assert count_one_way(graph) == wanted
    arrays = [
        (torch.from_numpy(rows.ptr), torch.from_numpy(rows.index)) for rows in (graph.in_edges(), graph.out_edges())
    ]
    over_rows = Graph.from_csr(*arrays[0], out=arrays[1])
    assert count_one_way(over_rows) == wanted
    assert "src" not in vars(over_rows)


def test_facts_go_through_a_file():
    facts = replace(QUIET, message="mlp")
    assert Facts.parse(asdict(facts), "shards.json") == facts
    older = {name: value for name, value in asdict(facts).items() if name != "num_unseen_classes"}
    assert Facts.parse(older, "shards.json") == facts
    for values, sentence in (
        ([], r"shards\.json must hold the facts"),
        ({**asdict(facts), "more": 1}, r"shards\.json must hold the facts"),
        ({**asdict(facts), "num_parts": "9"}, r"`num_parts` in shards\.json must be a fact of a graph\. Got '9'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Facts.parse(values, "shards.json")


def test_a_validation_loss_that_rose_again_shows_overfitting():
    falling = [{"epoch": epoch, "val_loss": 1 / epoch} for epoch in range(1, 40)]
    assert overfitting_notes(falling) == []
    assert overfitting_notes([]) == []
    assert overfitting_notes([{"epoch": 30, "loss": 1.0}]) == []
    risen = [*falling, {"epoch": 40, "val_loss": 0.06}]
    assert [str(note) for note in overfitting_notes(risen)] == [
        "it overfits: the validation loss is least in epoch 39 (0.0256) and 0.06 in the last, 40; the weights are "
        "those of the best validation; more model.dropout or train.weight_decay, or fewer model.hidden_channels, may "
        "mend it"
    ]
    assert overfitting_notes([{"epoch": 1, "val_loss": 0.1}, {"epoch": 2, "val_loss": 1.0}]) == []  # too short to tell


def test_the_sizes_of_a_partition_are_its_own():
    facts = Facts.of(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=9), Partition(np.zeros(9, np.int64), 3))
    assert (facts.num_parts, facts.largest_part) == (3, 1.0)
