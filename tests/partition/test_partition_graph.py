"""The contract of every entry of the table, and the door to them."""

import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpnn import Graph, Partition, partition_graph
from gpnn.check import install_command
from gpnn.partition import PARTITIONERS, compare_partitions
from tests.oracle.small_graphs import graphs, ring

NEEDS = {"metis": "pymetis", "mtkahypar": "mtkahypar"}


def _divide(graph: Graph, k: int, method: str, seed: int = 0) -> Partition:
    """The partition, with labels where the method is to be given some."""
    if method in NEEDS:
        pytest.importorskip(NEEDS[method])
    options = {"labels": np.arange(graph.num_nodes) % k} if method == "given" else {}
    return partition_graph(graph, k, method, seed, **options)


def _rings(count: int, size: int) -> Graph:
    return Graph.union([ring(size)] * count)[0]


@pytest.mark.parametrize("method", PARTITIONERS)
def test_every_node_gets_one_of_k_parts(method):
    part = _divide(_rings(6, 10), 5, method)
    assert (part.num_nodes, part.num_parts) == (60, 5)
    assert part.labels.dtype == torch.int64
    assert sorted(part.order.tolist()) == list(range(60))
    assert part.quality(_rings(6, 10)).num_empty == 0


@pytest.mark.parametrize("method", PARTITIONERS)
def test_the_same_seed_gives_the_same_bits(method):
    graph = _rings(6, 10)
    torch.manual_seed(1)
    first = _divide(graph, 5, method, seed=3)
    torch.manual_seed(2)
    assert torch.equal(first.labels, _divide(graph, 5, method, seed=3).labels)


@pytest.mark.parametrize("method", PARTITIONERS)
def test_one_part_holds_all(method):
    assert _divide(_rings(2, 8), 1, method).labels.tolist() == [0] * 16


@pytest.mark.parametrize("method", PARTITIONERS)
def test_global_random_state_is_left_alone(method):
    state, before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    _divide(_rings(6, 10), 5, method)
    assert torch.equal(state, torch.get_rng_state())
    assert (before == np.random.get_state()[1]).all()  # noqa: NPY002


@pytest.mark.parametrize("method", [name for name in PARTITIONERS if name != "components"])
@settings(max_examples=25, deadline=None)
@given(graph=graphs(), data=st.data())
def test_any_graph_is_divided(method, graph, data):
    """Self-loops, parallel and one-way edges, isolated nodes, several components, no edges, K up to N."""
    k = data.draw(st.integers(1, graph.num_nodes))
    part = _divide(graph, k, method, seed=data.draw(st.integers(0, 9)))
    assert (part.num_nodes, part.num_parts) == (graph.num_nodes, k)


@pytest.mark.parametrize("method", PARTITIONERS)
def test_more_parts_than_nodes_is_an_error(method):
    with pytest.raises(ValueError, match=r"`k` must be at most the 4 nodes. Got 5."):
        partition_graph(ring(4), 5, method)


def test_an_unknown_method_lists_the_choices():
    with pytest.raises(
        ValueError, match=r"`method` must be one of flood_fill, .*refined.*, auto, learned. Got 'kmeans'."
    ):
        partition_graph(ring(4), 2, "kmeans")


def test_an_unknown_option_lists_the_choices():
    with pytest.raises(ValueError, match=r"An option of 'flood_fill' must be one of train_mask, leftover. Got rounds."):
        partition_graph(ring(4), 2, rounds=3)


@pytest.mark.parametrize("k", [0, -1, 2.0, "2", True])
def test_k_is_a_positive_integer(k):
    with pytest.raises(ValueError, match=r"`k` must be an integer of at least 1. Got"):
        partition_graph(ring(4), k)


def test_a_mask_fits_the_graph():
    with pytest.raises(ValueError, match=r"`train_mask` must have 4 entries. Got 3."):
        partition_graph(ring(4), 2, train_mask=torch.ones(3, dtype=torch.bool))


def test_an_option_comes_before_the_data_s_own_mask():
    own, other = torch.tensor([True, False, False, True]), torch.tensor([False, True, True, False])
    edges = torch.stack([ring(4).src, ring(4).dst])
    data = Data(edge_index=edges, num_nodes=4, train_mask=own)
    separate = [partition_graph(data, 2, seed=seed).labels for seed in range(8)]
    assert all(labels[0] != labels[3] for labels in separate)
    separate = [partition_graph(data, 2, seed=seed, train_mask=other).labels for seed in range(8)]
    assert all(labels[1] != labels[2] for labels in separate)


@pytest.mark.parametrize("kind", ["data", "scipy", "networkx"])
def test_any_kind_of_graph_is_taken(kind):
    graph = ring(9)
    other = {"data": graph.to_data, "scipy": graph.to_scipy, "networkx": graph.to_networkx}[kind]()
    assert partition_graph(other, 3, "refined").quality(other).num_cut_edges == 6


def test_auto_takes_flood_fill_for_small_graphs_if_balanced_and_else_refined(monkeypatch):
    graph = _rings(4, 12)
    assert torch.equal(partition_graph(graph, 4, "auto").labels, partition_graph(graph, 4, "flood_fill").labels)
    lonely = Graph(graph.src, graph.dst, num_nodes=400)  # flood fill puts all that no seed reaches into one subgraph
    assert partition_graph(lonely, 8, "flood_fill").sizes.max() > 5 * 400 / 8
    assert torch.equal(partition_graph(lonely, 8, "auto").labels, partition_graph(lonely, 8, "refined").labels)
    spread = partition_graph(lonely, 8, "auto", leftover="spread")
    assert torch.equal(spread.labels, partition_graph(lonely, 8, "flood_fill", leftover="spread").labels)
    monkeypatch.setattr(import_module("gpnn.partition.partition_graph"), "LARGE", 48)  # not the function
    assert torch.equal(partition_graph(graph, 4, "auto").labels, partition_graph(graph, 4, "refined").labels)


def test_one_row_a_method_in_the_order_given():
    rows = compare_partitions(ring(40), 4, ["random", "flood_fill"], seed=3)
    assert [row.method for row in rows] == ["random", "flood_fill"]
    for row in rows:
        assert row.quality == partition_graph(ring(40), 4, row.method, seed=3).quality(ring(40))
        assert row.seconds > 0
        assert row.peak_memory is None or row.peak_memory >= 0
        assert row.left_out is None


def test_a_method_that_cannot_give_k_parts_says_why():
    (row,) = compare_partitions(ring(6), 2, ["components"])
    assert row.left_out == "`k` must be at most the 1 connected components. Got 2."
    assert (row.seconds, row.quality) == (None, None)


def test_a_method_whose_extra_is_missing_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    (row,) = compare_partitions(ring(6), 2, ["metis"])
    assert row.left_out == f'The method "metis" needs pymetis: {install_command("metis")}. Got none.'


def test_options_are_passed_on():
    (row,) = compare_partitions(ring(4), 2, {"given": {"labels": [0, 1, 0, 1]}})
    assert row.quality.edge_cut == 1


def test_without_methods_all_are_compared_that_work_by_themselves():
    compared = [row.method for row in compare_partitions(ring(8), 2)]
    assert compared == [name for name in PARTITIONERS if name not in ("given", "auto")]


def test_a_comparison_of_an_unknown_method_lists_the_choices():
    with pytest.raises(ValueError, match=r"`methods` must be among flood_fill, .*, given, auto. Got 'best'."):
        compare_partitions(ring(4), 2, ["best"])
