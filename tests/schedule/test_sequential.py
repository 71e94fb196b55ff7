import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, load_dataset
from gpnn.schedule import broadcast, sequential
from tests.oracle.small_graphs import chain, graphs
from tests.oracle.traversal import bfs_order, longest_path


def test_a_chain_is_traversed_in_both_directions():
    """As a bidirectional recurrent network does (Sect. 4.5)."""
    schedule = sequential(chain(5), rounds=1)
    sent = [(schedule.graph.src[phase.edges].tolist(), phase.nodes.tolist()) for phase in schedule.rounds[0]]
    forward = [([node], [node + 1]) for node in range(4)]
    backward = [([node + 1], [node]) for node in reversed(range(4))]
    assert sent == forward + backward
    assert (schedule.num_messages, schedule.num_updates) == (8, 8)
    assert broadcast(chain(5), schedule).solved


def test_from_the_middle_of_a_chain_both_arms_go_at_once():
    nodes = [sorted(phase.nodes.tolist()) for phase in sequential(chain(5), 1, root=2).rounds[0]]
    assert nodes == [[1, 3], [0, 4], [1, 3], [2]]


@settings(max_examples=120, deadline=None)
@given(graph=graphs(), data=st.data())
def test_levels_are_those_of_the_two_acyclic_graphs(graph, data):
    root = data.draw(st.integers(0, graph.num_nodes - 1))
    edges = list(zip(graph.src.tolist(), graph.dst.tolist()))
    rank = {node: at for at, node in enumerate(bfs_order(edges, graph.num_nodes, root))}
    forward = [(u, v) for u, v in edges if rank[u] < rank[v]]
    backward = [(u, v) for u, v in edges if rank[u] > rank[v]]
    expected = []
    for dag, extra in ((forward, [(u, v) for u, v in edges if u == v]), (backward, [])):
        sent: dict[int, list[tuple[int, int]]] = {}
        for u, v in dag + extra:
            sent.setdefault(longest_path(dag, v), []).append((u, v))
        expected += [sorted(sent[level]) for level in sorted(sent)]
    phases = sequential(graph, rounds=1, root=root).rounds[0]
    assert [sorted(edges[edge] for edge in phase.edges.tolist()) for phase in phases] == expected


@settings(max_examples=80, deadline=None)
@given(graph=graphs())
def test_every_edge_is_sent_exactly_once_a_round_and_only_receivers_update(graph):
    schedule = sequential(graph, rounds=2)
    assert sorted(e for phase in schedule.rounds[1] for e in phase.edges.tolist()) == list(range(graph.num_edges))
    for phase in schedule.distinct_phases():
        assert set(phase.nodes.tolist()) == set(graph.dst[phase.edges].tolist())


@settings(max_examples=80, deadline=None)
@given(graph=graphs())
def test_a_node_receives_from_all_its_parents_before_it_sends(graph):
    """Within a pass a node sends only after its own update, and updates once."""
    proper = graph.select_edges(graph.src != graph.dst)
    rank = {node: at for at, node in enumerate(bfs_order(list(zip(proper.src.tolist(), proper.dst.tolist())),
                                                         proper.num_nodes, 0))}  # fmt: skip
    passes: dict[bool, list] = {True: [], False: []}
    for phase in sequential(proper, rounds=1).rounds[0]:
        first = int(phase.edges[0])
        passes[rank[int(proper.src[first])] < rank[int(proper.dst[first])]].append(phase)
    for phases in passes.values():
        sent: set[int] = set()
        for phase in phases:
            sent |= set(proper.src[phase.edges].tolist())
            assert not sent & set(phase.nodes.tolist())


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), data=st.data())
def test_the_order_of_the_edge_list_does_not_matter(graph, data):
    shuffled = torch.tensor(data.draw(st.permutations(range(graph.num_edges))), dtype=torch.int64)
    one, other = sequential(graph, 1).rounds[0], sequential(graph.select_edges(shuffled), 1).rounds[0]
    assert [sorted(phase.edges.tolist()) for phase in one] == [
        sorted(shuffled[phase.edges].tolist()) for phase in other
    ]


def test_self_loops_are_in_the_first_pass():
    graph = Graph([0, 1, 0, 1], [1, 0, 0, 1], num_nodes=2)  # 0 ⇄ 1 and a loop on each
    phases = sequential(graph, rounds=1).rounds[0]
    assert [sorted(phase.edges.tolist()) for phase in phases] == [[2], [0, 3], [1]]


def test_parallel_edges_travel_together():
    graph = Graph([0, 0, 1], [1, 1, 0], num_nodes=2)
    assert [sorted(p.edges.tolist()) for p in sequential(graph, rounds=1).rounds[0]] == [[0, 1], [2]]


def test_roots_and_isolated_nodes_do_not_update_without_a_message():
    phases = sequential(Graph([0, 3], [1, 4], num_nodes=5), rounds=1).rounds[0]
    assert [sorted(phase.nodes.tolist()) for phase in phases] == [[1, 4]]


def test_a_long_chain_makes_one_phase_a_level():
    schedule = sequential(chain(1500), rounds=2)
    assert schedule.num_phases == 2 * 2 * 1499
    assert len(list(schedule.distinct_phases())) == 2 * 1499


def test_refuses_a_root_outside_the_graph():
    with pytest.raises(ValueError, match=r"`root` must be a node, from 0 to 2\. Got 3"):
        sequential(chain(3), rounds=1, root=3)


def test_a_round_on_pubmed_has_174_levels(data_root):
    schedule = sequential(load_dataset("pubmed", root=data_root), rounds=5)
    assert len(schedule.rounds[0]) == 174
    assert len(list(schedule.distinct_phases())) == 174
