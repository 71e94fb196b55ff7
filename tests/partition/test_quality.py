import json

import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data

from gpnn import Graph, Partition
from tests.oracle.small_graphs import chain, partitioned_graphs


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
