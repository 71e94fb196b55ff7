import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import spanning_trees
from tests.oracle.small_graphs import chain, ring, undirected_graphs
from tests.oracle.traversal import kruskal


def sent_pairs(graph, phases):
    """The (parent, child) pairs of a round, phase by phase."""
    return [list(zip(graph.src[p.edges].tolist(), graph.dst[p.edges].tolist())) for p in phases]


@settings(max_examples=80, deadline=None)
@given(graph=undirected_graphs(), seed=st.integers(0, 50), data=st.data())
def test_each_round_is_a_forest_with_one_root_a_component(graph, seed, data):
    root = data.draw(st.integers(0, graph.num_nodes - 1))
    components = graph.components()
    num_components = int(components.max()) + 1
    lowest = [int((components == number).nonzero()[0]) for number in range(num_components)]
    lowest[int(components[root])] = root
    for phases in spanning_trees(graph, rounds=3, seed=seed, root=root).rounds:
        informed = set(lowest)
        for pairs in sent_pairs(graph, phases):
            parents, children = {u for u, _ in pairs}, [v for _, v in pairs]
            assert parents <= informed
            assert not informed & set(children)
            assert len(set(children)) == len(children)  # one message a child
            informed |= set(children)
        assert informed == set(range(graph.num_nodes))
        assert sum(len(phase.edges) for phase in phases) == graph.num_nodes - num_components


@settings(max_examples=80, deadline=None)
@given(graph=undirected_graphs(), seed=st.integers(0, 50))
def test_forests_are_those_of_kruskal_with_weights_that_grow_by_one(graph, seed):
    pairs = sorted({(u, v) for u, v in zip(graph.src.tolist(), graph.dst.tolist()) if u < v})
    weights = np.random.default_rng(seed).random(len(pairs)).tolist()
    for phases in spanning_trees(graph, rounds=4, seed=seed).rounds:
        forest = kruskal(pairs, weights, graph.num_nodes)
        sent = {(min(u, v), max(u, v)) for phase in sent_pairs(graph, phases) for u, v in phase}
        assert sent == forest
        weights = [weight + ((u, v) in forest) for weight, (u, v) in zip(weights, pairs)]


def test_a_connected_graph_has_nodes_less_one_messages_a_round():
    schedule = spanning_trees(ring(7), rounds=4)
    assert [sum(len(phase.edges) for phase in phases) for phases in schedule.rounds] == [6] * 4
    assert (schedule.num_messages, schedule.num_updates) == (24, 24)


def test_a_ring_leaves_out_an_edge_that_was_used():
    """The pair left out of the first tree is the only one with a weight under 1, so the second takes it."""
    graph = ring(6)
    rounds = [
        {frozenset(pair) for pairs in sent_pairs(graph, phases) for pair in pairs}
        for phases in spanning_trees(graph, rounds=2, seed=3).rounds
    ]
    everything = {frozenset((node, (node + 1) % 6)) for node in range(6)}
    assert everything - rounds[0] <= rounds[1]


def test_a_chain_goes_from_the_root_outwards():
    phases = spanning_trees(chain(5), rounds=1, root=1).rounds[0]
    assert [sorted(pairs) for pairs in sent_pairs(chain(5), phases)] == [[(1, 0), (1, 2)], [(2, 3)], [(3, 4)]]
    assert {phase.kind for phase in phases} == {"depth"}


def test_one_of_several_parallel_edges_is_sent_and_each_has_its_turn():
    graph = Graph([0, 0, 0, 1], [1, 1, 1, 0], num_nodes=2)
    sent = [phases[0].edges.tolist() for phases in spanning_trees(graph, rounds=40).rounds]
    assert {len(edges) for edges in sent} == {1}
    assert {edges[0] for edges in sent} == {0, 1, 2}


def test_self_loops_are_never_sent():
    graph = Graph([0, 0, 1], [0, 1, 0], num_nodes=2)
    assert [phase.edges.tolist() for phase in spanning_trees(graph, rounds=1).rounds[0]] == [[1]]


def test_seeds_differ():
    forests = [spanning_trees(ring(30), rounds=1, seed=seed).rounds[0] for seed in (0, 1)]
    used = [{int(edge) for phase in phases for edge in phase.edges} for phases in forests]
    assert used[0] != used[1]


def test_refuses_a_graph_that_lacks_a_reverse_and_says_the_way_out():
    one_way = Graph([0, 1, 1], [1, 0, 2], num_nodes=3)
    with pytest.raises(ValueError, match=r"Got 1 → 2 without it: data.undirected=true adds it, .*to_undirected\(\)"):
        spanning_trees(one_way, rounds=1)
    assert spanning_trees(one_way.to_undirected(), rounds=1).num_messages == 2


def test_refuses_a_root_outside_the_graph():
    with pytest.raises(ValueError, match=r"`root` must be a node, from 0 to 2\. Got -1"):
        spanning_trees(chain(3), rounds=1, root=-1)
