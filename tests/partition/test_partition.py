import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from gpnn import Graph, Partition
from gpnn.partition.partition import as_nodes, training_nodes
from tests.oracle.small_graphs import chain, partitioned_graphs


def test_order_and_pointers_by_hand():
    part = Partition([2, 0, 2, 0, 3], num_parts=5)
    assert part.order.tolist() == [1, 3, 0, 2, 4]
    assert part.ptr.tolist() == [0, 2, 2, 4, 5, 5]
    assert part.sizes.tolist() == [2, 0, 2, 1, 0]
    assert (part.num_nodes, repr(part)) == (5, "Partition(num_nodes=5, num_parts=5)")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_each_part_owns_its_nodes_in_ascending_order(labels):
    part = Partition(labels, num_parts=7)
    owned = [part.order[part.ptr[p] : part.ptr[p + 1]].tolist() for p in range(7)]
    assert owned == [[node for node, label in enumerate(labels) if label == p] for p in range(7)]


def test_labels_become_int64():
    part = Partition(torch.tensor([0, 1], dtype=torch.int8), 2)
    assert part.labels.dtype == part.order.dtype == part.ptr.dtype == torch.int64


@pytest.mark.parametrize(
    ("labels", "num_parts", "message"),
    [
        ([0, 2], 2, r"`labels` must lie from 0 to 1. Got 2."),
        ([0, -1], 2, r"`labels` must lie from 0 to 1. Got -1."),
        ([], 2, r"`labels` must have shape \[N\] with N at least 1. Got \[0\]."),
        ([[0, 1]], 2, r"`labels` must have shape \[N\] with N at least 1. Got \[1, 2\]."),
        ([0.0, 1.0], 2, r"`labels` must hold integers. Got float32."),
        ([True, False], 2, r"`labels` must hold integers. Got bool."),
        ([0, 1], 0, r"`num_parts` must be an integer of at least 1. Got 0."),
        ([0, 1], 2.0, r"`num_parts` must be an integer of at least 1. Got 2.0."),
        ([0, 1], True, r"`num_parts` must be an integer of at least 1. Got True."),
    ],
)
def test_it_checks_itself(labels, num_parts, message):
    with pytest.raises(ValueError, match=message):
        Partition(labels, num_parts)


def test_numpy_integers_are_integers():
    assert Partition([0, 1], np.int64(2)).num_parts == 2


@pytest.mark.parametrize("name", ["saved.safetensors", "graph.part.4"])
def test_what_is_saved_is_loaded(tmp_path, name):
    part = Partition([1, 0, 3, 1], num_parts=4)
    part.save(tmp_path / name)
    loaded = Partition.load(tmp_path / name)
    assert (loaded.labels.tolist(), loaded.num_parts) == ([1, 0, 3, 1], 4)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_text_is_that_of_metis(tmp_path):
    Partition([1, 0], 2).save(tmp_path / "graph.part.2")
    assert (tmp_path / "graph.part.2").read_text() == "1\n0\n"


def test_the_name_of_a_text_states_its_parts(tmp_path):
    with pytest.raises(ValueError, match=r"`graph.part.3` must end in .part.2. Got .part.3."):
        Partition([0, 1], 2).save(tmp_path / "graph.part.3")
    with pytest.raises(ValueError, match=r"must end in \.safetensors or \.part\.2\. Got 'parts\.csv'\."):
        Partition([0, 1], 2).save(tmp_path / "parts.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", b"hello there", "must be a saved partition or end in .part.K"),
        ("saved", b"", "must be a saved partition or end in .part.K"),
        ("graph.part.2", b"0\none\n", "must hold one integer per line"),
        ("graph.part.2", b"0\n2\n", "`labels` must lie from 0 to 1. Got 2."),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Partition.load(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must name a partition file. Got '.*none', which is not a file."):
        Partition.load(tmp_path / "none")


def test_a_file_of_other_tensors_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"labels": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=r"must be a saved partition .* Got another program's file"):
        Partition.load(tmp_path / "other.safetensors")


def test_an_arrangement_is_the_order_and_is_saved(tmp_path):
    arranged = Partition([0, 1, 0, 1], 2, torch.tensor([2, 0, 3, 1], dtype=torch.int32))
    assert arranged.order.tolist() == [2, 0, 3, 1]
    assert arranged.ptr.tolist() == [0, 2, 4]
    arranged.save(tmp_path / "p.safetensors")
    assert Partition.load(tmp_path / "p.safetensors").order.tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize(
    ("arrangement", "words"),
    [([0, 2, 1], "must hold 4 nodes"), ([0, 2, 1, 1], "every node once"), ([0, 1, 2, 3], "group the nodes by part")],
)
def test_an_arrangement_is_checked(arrangement, words):
    with pytest.raises(ValueError, match=words):
        Partition([0, 1, 0, 1], 2, torch.tensor(arrangement))


def _chain_in_two() -> tuple[Graph, Partition]:
    return chain(4), Partition([0, 0, 0, 1], num_parts=2)


def test_a_chain_by_hand():
    graph, part = _chain_in_two()
    quality = part.quality(graph, torch.tensor([True, True, False, True]))
    assert quality.num_cut_edges == 2  # 2 → 3 and 3 → 2
    assert quality.edge_cut == pytest.approx(2 / 6)
    assert quality.balance == pytest.approx(3 / 2)
    assert quality.edge_ends == (10, 2)
    assert quality.edge_balance == pytest.approx(10 / 6)
    assert quality.num_cut_nodes == 2
    assert quality.halo == (1, 1)
    assert quality.conductance == (1.0, 1.0)  # both cut edges over the two edge ends of node 3
    assert quality.train_labels == (2, 1)
    assert quality.num_empty == 0


def test_halo_counts_senders_once_for_each_part():
    """Node 0 sends twice to part 1 and once to part 2; node 3 sends nothing."""
    graph = Graph([0, 0, 0, 1], [1, 2, 3, 2], num_nodes=4)
    assert Partition([0, 1, 1, 2], 3).quality(graph).halo == (0, 1, 1)


def test_parts_by_nodes_and_by_edges_differ():
    star = Graph([0] * 9, range(1, 10), num_nodes=10)
    quality = Partition([0] * 5 + [1] * 5, 2).quality(star)
    assert (quality.balance, quality.edge_balance) == (1.0, pytest.approx(13 / 9))


def test_self_loops_are_not_cut_and_empty_parts_are_counted():
    quality = Partition([0, 2], 4).quality(Graph([0, 1], [0, 1], num_nodes=2))
    assert (quality.edge_cut, quality.num_cut_nodes, quality.num_empty) == (0.0, 0, 2)
    assert quality.conductance == (0.0,) * 4


def test_a_graph_without_edges_has_no_cut():
    quality = Partition([0, 1], 2).quality(Graph([], [], num_nodes=2))
    assert (quality.edge_cut, quality.edge_balance) == (0.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(partitioned_graphs())
def test_every_figure_against_a_slow_count(drawn):
    graph, labels = drawn
    quality = Partition(labels, 4).quality(graph)
    edges = list(zip(graph.src.tolist(), graph.dst.tolist()))
    cut = [(u, v) for u, v in edges if labels[u] != labels[v]]
    ends = [sum((labels[u] == p) + (labels[v] == p) for u, v in edges) for p in range(4)]
    assert quality.num_cut_edges == len(cut)
    assert quality.num_cut_nodes == len({node for edge in cut for node in edge})
    assert quality.edge_ends == tuple(ends)
    assert quality.halo == tuple(len({u for u, v in cut if labels[v] == p}) for p in range(4))
    for p in range(4):
        crossing = sum(p in (labels[u], labels[v]) for u, v in cut)
        assert quality.conductance[p] == pytest.approx(crossing / max(min(ends[p], sum(ends) - ends[p]), 1))


def test_data_brings_its_own_training_nodes():
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, train_mask=torch.tensor([False, True]))
    assert Partition([0, 1], 2).quality(data).train_labels == (0, 1)


def test_it_prints_as_a_table():
    graph, part = _chain_in_two()
    lines = str(part.quality(graph)).splitlines()
    assert lines[2].split() == ["edge", "cut", "0.3333"]
    assert lines[-3].split() == ["part", "nodes", "edge", "ends", "halo", "conductance", "labels"]
    assert lines[-1].split() == ["1", "1", "2", "1", "1.0000", "-"]


def test_it_is_json():
    graph, part = _chain_in_two()
    quality = json.loads(json.dumps(part.quality(graph).as_dict()))
    assert quality["halo"] == [1, 1]
    assert quality["edge_cut"] == pytest.approx(1 / 3)


def test_the_graph_must_be_the_one_that_was_divided():
    with pytest.raises(ValueError, match=r"The graph must have the partition's 4 nodes. Got 3."):
        _chain_in_two()[1].quality(chain(3))


def test_the_training_mask_comes_first():
    data = Data(edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, -1]), num_nodes=3)
    assert training_nodes(data).tolist() == [0, 1]
    data.train_mask = torch.tensor([False, True, False])
    assert training_nodes(data).tolist() == [1]


@pytest.mark.parametrize(
    "fields",
    [{}, {"train_mask": torch.zeros(3, dtype=torch.bool)}, {"y": torch.zeros(3, 2)}, {"y": torch.zeros(3)}],
)
def test_without_labels_there_are_none(fields):
    assert training_nodes(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3, **fields)) is None


def test_masks_of_node_types_follow_each_other():
    data = HeteroData()
    data["paper"].num_nodes = 2
    data["author"].num_nodes = 3
    data["author"].train_mask = torch.tensor([True, False, True])
    assert training_nodes(data).tolist() == [2, 4]


def test_a_mask_must_be_boolean():
    with pytest.raises(ValueError, match=r"`train_mask` must be a bool mask \[N\]. Got torch.int64, \[2\]."):
        as_nodes(torch.tensor([0, 1]))
