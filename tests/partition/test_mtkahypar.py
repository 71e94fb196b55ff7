import re
import sys

import pytest

from gpnn import Graph, partition_graph
from gpnn.check import install_command
from tests.oracle.small_graphs import chain

TWO_CLIQUES = [(u + b, v + b) for b in (0, 6) for u in range(6) for v in range(u)] + [(0, 6), (1, 0), (2, 2)]


def test_two_cliques_are_found_and_loops_and_repeats_do_no_harm():
    pytest.importorskip("mtkahypar")
    graph = Graph([u for u, _ in TWO_CLIQUES], [v for _, v in TWO_CLIQUES], num_nodes=12)
    assert partition_graph(graph, 2, method="mtkahypar").quality(graph).num_cut_edges == 1


def test_seeds_differ_and_repeat():
    pytest.importorskip("mtkahypar")
    graph = Graph(range(200), [(node * node + 7) % 200 for node in range(200)], 200)
    labels = [partition_graph(graph, 4, method="mtkahypar", seed=seed).labels.tolist() for seed in (0, 1, 0)]
    assert labels[0] == labels[2]
    assert labels[0] != labels[1]


def test_edges_can_be_balanced_instead_of_nodes():
    pytest.importorskip("mtkahypar")
    clique = Graph([u for u in range(10) for _ in range(10)], [*range(10)] * 10, num_nodes=10)
    graph = Graph.union([clique, chain(46)])[0]
    assert sorted(partition_graph(graph, 2, method="mtkahypar", balance="edges").sizes.tolist()) == [10, 46]


def test_a_graph_without_edges_is_divided():
    pytest.importorskip("mtkahypar")
    assert partition_graph(Graph([], [], 5), 3, method="mtkahypar").num_nodes == 5


def test_a_negative_imbalance_is_refused():
    with pytest.raises(ValueError, match=r"`imbalance` must be at least 0. Got -1."):
        partition_graph(chain(4), 2, method="mtkahypar", imbalance=-1)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mtkahypar", None)
    with pytest.raises(ValueError, match=re.escape(f"needs mtkahypar: {install_command('partition')}. Got none.")):
        partition_graph(chain(4), 2, method="mtkahypar")
