"""Changes that do not suit a graph, edges that go both ways, and slots that are used again."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from gpnn.data.features import from_scipy
from gpnn.graph import Graph
from gpnn.incremental import Change, EdgeList, LiveGraph


def triangle(**arguments) -> LiveGraph:
    return LiveGraph(Graph([0, 1, 2], [1, 2, 0], num_nodes=3), torch.eye(3), list("abc"), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change(removed_nodes=["z"]), r"`removed_nodes` must name nodes of the graph\. Got 'z'\."),
        (Change(["d", "d"], torch.ones(2, 3)), r"`nodes` must name each node once\. Got 2 rows of 1 nodes\."),
        (Change(edges=EdgeList(["a"], ["z"])), r"`edges` must join nodes of the graph or of `nodes`\. Got 'z'\."),
        (Change(edges=EdgeList(["a"], ["b"]), removed_nodes=["b"]), r"`edges` must join nodes"),
        (Change(removed_nodes=["a", "b", "c"]), r"must keep at least one node"),
        (Change(["d"], torch.ones(1, 2)), r"must have shape \[1, 3\]\. Got \[1, 2\]\."),
        (Change(["d"]), r"must have shape \[1, 3\]\. Got \[1, 0\]\."),
        (Change(["d"], torch.full((1, 3), torch.nan)), r"must be finite numbers"),
        (Change(edges=EdgeList(["a"], ["b"], np.array([0]))), r"must have no types, as .*\. Got types\."),
        (Change(edges=EdgeList(["a"], ["b"], None, np.ones(1))), r"must have no weights, as .*\. Got weights\."),
        (Change(removed_edges=EdgeList(["b"], ["a"])), r"must name edges of the graph\. Got 'b' → 'a', which is not"),
    ],
)
def test_a_change_that_does_not_suit_is_refused_and_leaves_the_graph(change, message):
    live = triangle()
    with pytest.raises(ValueError, match=message):
        live.apply(change)
    graph = live.edges.to_graph(live.slots.in_order())
    assert (graph.num_nodes, sorted(zip(graph.src.tolist(), graph.dst.tolist()))) == (3, [(0, 1), (1, 2), (2, 0)])


def test_types_and_weights_of_edges_are_checked():
    typed = LiveGraph(Graph([0, 1], [1, 0], 2, edge_type=[0, 1]), None, list("ab"))
    with pytest.raises(ValueError, match=r"must lie from 0 to 1\. Got 2\."):
        typed.apply(Change(edges=EdgeList(["a"], ["b"], np.array([2]))))
    typed.apply(Change(removed_edges=EdgeList(["b"], ["a"], np.array([1]))))
    assert typed.edges.to_graph(np.arange(2)).edge_type.tolist() == [0]
    weighted = LiveGraph(Graph([0], [1], 2, edge_weight=[0.5]), None, list("ab"))
    with pytest.raises(ValueError, match=r"finite number"):
        weighted.apply(Change(edges=EdgeList(["a"], ["b"], None, np.array([np.inf]))))


def test_undirected_edges_come_and_go_both_ways_and_once():
    live = LiveGraph(Graph([0, 1], [1, 0], 3), None, list("abc"), undirected=True)
    live.apply(Change(edges=EdgeList(["b", "b", "a"], ["a", "c", "b"])))
    graph = live.edges.to_graph(np.arange(3))
    assert sorted(zip(graph.src.tolist(), graph.dst.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    live.apply(Change(removed_edges=EdgeList(["a"], ["b"])))
    graph = live.edges.to_graph(np.arange(3))
    assert sorted(zip(graph.src.tolist(), graph.dst.tolist())) == [(1, 2), (2, 1)]


def test_slots_are_used_again_and_nodes_that_come_back_keep_their_subgraph():
    live = triangle(labels=np.array([0, 1, 1]))
    live.apply(Change(removed_nodes=["a"]))
    live.apply(Change(["x"], torch.ones(1, 3), EdgeList(["x"], ["c"])))
    assert live.slots.find(["x"], "nodes").tolist() == [0]
    assert live.edges.labels[0] == 1  # its neighbour's
    live.apply(Change(["a"], torch.ones(1, 3), EdgeList(["a"], ["b"])))
    assert live.edges.labels[live.slots.find(["a"], "nodes")].tolist() == [0]
    assert [live.slots.ids[slot] for slot in live.slots.in_order()] == ["b", "c", "x", "a"]


def test_a_new_node_moves_when_most_of_its_neighbours_are_elsewhere():
    live = LiveGraph(Graph([0], [1], 4), None, list("abcd"), labels=np.array([0, 1, 1, 1]))
    live.apply(Change(["x", "y"], None, EdgeList(["a", "x"], ["x", "y"])))
    place = live.slots.find(["x", "y"], "nodes")
    assert live.edges.labels[place].tolist() == [0, 0]
    _, concerned = live.apply(Change(edges=EdgeList(["b", "c"], ["x", "x"])))
    assert live.edges.labels[place].tolist() == [1, 1]
    assert set(place) <= set(concerned)


def test_sparse_features_grow_and_change():
    x = from_scipy(csr_matrix(np.eye(3)), sparse=True)
    live = LiveGraph(Graph([0], [1], 3), x, list("abc"))
    live.apply(Change(["d", "a"], torch.tensor([[0.0, 2, 3], [0, 0, 0]])))
    found = live.take_features(np.array([3, 0, 1])).to_dense()
    assert found.tolist() == [[0, 2, 3], [0, 0, 0], [0, 1, 0]]
    assert x.to_dense()[0].tolist() == [1, 0, 0]  # the user's own


def test_the_users_dense_features_are_not_changed():
    x = torch.eye(3)
    live = LiveGraph(Graph([0], [1], 3), x, list("abc"))
    live.apply(Change(["a"], torch.zeros(1, 3)))
    assert x[0].tolist() == [1, 0, 0]


def test_reverses_with_types_of_their_own_come_and_go_with_their_edges():
    graph = Graph([0, 1], [1, 0], 3, edge_type=[0, 1]).with_reverse_types()
    live = LiveGraph(graph, None, list("abc"), undirected="typed")
    live.apply(Change(edges=EdgeList(["c"], ["a"], np.array([1]))))
    live.apply(Change(removed_edges=EdgeList(["a"], ["b"])))  # the edge, not the reverse of b → a
    found = live.edges.to_graph(np.arange(3))
    edges = sorted(zip(found.src.tolist(), found.dst.tolist(), found.edge_type.tolist()))
    assert edges == [(0, 1, 3), (0, 2, 3), (1, 0, 1), (2, 0, 1)]
    with pytest.raises(ValueError, match="which is not one"):
        live.apply(Change(removed_edges=EdgeList(["a"], ["b"])))
    with pytest.raises(ValueError, match="must lie from 0 to 1"):
        live.apply(Change(edges=EdgeList(["c"], ["a"], np.array([2]))))


def test_types_that_count_as_one_come_with_edges_and_do_not_choose_what_goes():
    graph = Graph([0, 1], [1, 0], 3).with_reverse_types()  # of edges with types
    live = LiveGraph(graph, None, list("abc"), undirected="directions")
    live.apply(Change(edges=EdgeList(["c", "b"], ["a", "c"], np.array([4, 1]))))
    with pytest.raises(ValueError, match="`removed_edges` must have no types where a model takes all types as one"):
        live.apply(Change(removed_edges=EdgeList(["a"], ["b"], np.array([0]))))
    live.apply(Change(removed_edges=EdgeList(["a"], ["b"])))
    found = live.edges.to_graph(np.arange(3))
    edges = sorted(zip(found.src.tolist(), found.dst.tolist(), found.edge_type.tolist()))
    assert edges == [(0, 1, 1), (0, 2, 1), (1, 0, 0), (1, 2, 0), (2, 0, 0), (2, 1, 1)]
