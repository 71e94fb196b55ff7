import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, partition_graph
from gpnn.check import install_command
from tests.oracle.small_graphs import chain, graphs


def two_cliques(size: int) -> Graph:
    """Two cliques joined by one edge; every edge in one direction only, one twice, and a self-loop."""
    pairs = [(u + b, v + b) for b in (0, size) for u in range(size) for v in range(u)]
    pairs += [(0, size), (1, 0), (2, 2)]
    return Graph([u for u, _ in pairs], [v for _, v in pairs], 2 * size)


def test_two_cliques_are_found():
    pytest.importorskip("pymetis")
    graph = two_cliques(6)
    assert partition_graph(graph, 2, method="metis").quality(graph).num_cut_edges == 1


def test_repeated_edges_weigh_more():
    """A chain whose middle edge is the only one that is not repeated is cut there, however unequal the halves."""
    pytest.importorskip("pymetis")
    chain_of_four = Graph([0] * 9 + [1] + [2] * 9, [1] * 9 + [2] + [3] * 9, num_nodes=4)
    assert partition_graph(chain_of_four, 2, method="metis").quality(chain_of_four).num_cut_edges == 1


def test_edges_can_be_balanced_instead_of_nodes():
    pytest.importorskip("pymetis")
    clique = Graph([u for u in range(10) for _ in range(10)], [*range(10)] * 10, num_nodes=10)  # 90 edges, 10 loops
    graph = Graph.union([clique, chain(46)])[0]
    nodes, edges = (
        partition_graph(graph, 2, method="metis", balance=balance).sizes.tolist() for balance in ("nodes", "edges")
    )
    assert nodes == [28, 28]
    assert sorted(edges) == [10, 46]


def test_seeds_differ_and_repeat():
    pytest.importorskip("pymetis")
    graph = Graph(range(2000), [(node * node + 7) % 2000 for node in range(2000)], 2000)
    labels = [partition_graph(graph, 9, method="metis", seed=seed).labels.tolist() for seed in (0, 1, 0)]
    assert labels[0] == labels[2]
    assert labels[0] != labels[1]


@settings(max_examples=30, deadline=None)
@given(graphs(), st.data())
def test_any_graph_is_divided(graph, data):
    pytest.importorskip("pymetis")
    k = data.draw(st.integers(1, graph.num_nodes))
    part = partition_graph(graph, k, method="metis", balance=data.draw(st.sampled_from(["nodes", "edges"])))
    assert (part.num_nodes, part.num_parts) == (graph.num_nodes, k)


def test_an_unknown_balance_lists_the_choices():
    with pytest.raises(ValueError, match=r"`balance` must be one of nodes, edges. Got 'cost'."):
        partition_graph(chain(4), 2, method="metis", balance="cost")


def test_without_pymetis_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ValueError, match=re.escape(f"needs pymetis: {install_command('metis')}. Got none.")):
        partition_graph(chain(4), 2, method="metis")
