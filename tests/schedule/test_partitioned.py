import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph, Partition
from gpnn.schedule import broadcast, partitioned, synchronous
from gpnn.schedule.partitioned import KINDS
from tests.oracle.run_schedule import run_schedule
from tests.oracle.small_graphs import chain, graphs, partitioned_graphs, undirected_graphs


def phases_by_kind(schedule):
    return {phase.kind: phase for phase in schedule.rounds[0]}


def test_chain_of_four_in_two_subgraphs():
    schedule = partitioned(chain(4), [0, 0, 1, 1], rounds=3, intra=2, cut=1)
    inside, cut = schedule.rounds[0]
    assert (inside.kind, inside.repeat, cut.kind, cut.repeat) == ("inside", 2, "cut", 1)
    assert [(e.tolist(), n.tolist()) for e, n in inside.blocks()] == [([0, 3], [0, 1]), ([2, 5], [2, 3])]
    assert (cut.edges.tolist(), cut.nodes.tolist(), cut.num_blocks) == ([1, 4], [1, 2], 1)
    assert (schedule.num_messages, schedule.num_updates) == (3 * (2 * 4 + 2), 3 * (2 * 4 + 2))


def test_all_phases_but_the_first_close_the_round():
    (phases,) = partitioned(chain(4), [0, 0, 1, 1], rounds=1, virtual="graph").rounds
    assert tuple(phase.kind for phase in phases) == KINDS
    assert [phase.closing for phase in phases] == [False, True, True, True]
    assert not synchronous(chain(4), rounds=1).rounds[0][0].closing


@settings(max_examples=80, deadline=None)
@given(case=partitioned_graphs(), update=st.sampled_from(["members", "receivers"]))
def test_every_edge_is_sent_once_a_round_on_its_side_of_the_cut(case, update):
    graph, labels = case
    schedule = partitioned(graph, labels, rounds=2, update=update)
    sent = [edge for phase in schedule.rounds[0] for edge in phase.edges.tolist()]
    assert sorted(sent) == list(range(graph.num_edges))
    crosses = [labels[u] != labels[v] for u, v in zip(graph.src.tolist(), graph.dst.tolist())]
    for phase in schedule.rounds[0]:
        assert {crosses[edge] for edge in phase.edges.tolist()} <= {phase.kind == "cut"}


@settings(max_examples=80, deadline=None)
@given(case=partitioned_graphs())
def test_members_update_inside_and_both_ends_in_the_cut(case):
    graph, labels = case
    phases = phases_by_kind(partitioned(graph, labels, rounds=1))
    assert sorted(phases["inside"].nodes.tolist()) == list(range(graph.num_nodes))
    for part, (edges, nodes) in enumerate(phases["inside"].blocks()):
        assert nodes.tolist() == [node for node in range(graph.num_nodes) if labels[node] == part]
        assert {labels[node] for node in graph.src[edges].tolist() + graph.dst[edges].tolist()} <= {part}
    pairs = list(zip(graph.src.tolist(), graph.dst.tolist()))
    ends = {node for u, v in pairs if labels[u] != labels[v] for node in (u, v)}
    assert ("cut" in phases) == bool(ends)
    assert not ends or set(phases["cut"].nodes.tolist()) == ends


@settings(max_examples=80, deadline=None)
@given(case=partitioned_graphs())
def test_receivers_alone_update_when_asked(case):
    graph, labels = case
    for phase in partitioned(graph, labels, rounds=1, update="receivers").rounds[0]:
        assert set(phase.nodes.tolist()) == set(graph.dst[phase.edges].tolist()) != set()


@settings(max_examples=40, deadline=None)
@given(graph=graphs(), rounds=st.integers(1, 3), intra=st.integers(1, 3))
def test_one_subgraph_is_rounds_times_intra_synchronous_steps(graph, rounds, intra):
    one = partitioned(graph, [0] * graph.num_nodes, rounds, intra)
    plain = synchronous(graph, rounds * intra)
    assert (one.num_steps, one.num_messages, one.num_updates) == (
        plain.num_steps,
        plain.num_messages,
        plain.num_updates,
    )
    (phase,), (everything,) = one.rounds[0], plain.rounds[0]
    assert phase.edges.equal(everything.edges)
    assert phase.nodes.equal(everything.nodes)
    state = np.linspace(-1, 1, graph.num_nodes)
    assert np.array_equal(run_schedule(one, state), run_schedule(plain, state))


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_as_many_subgraphs_as_nodes_is_synchronous_for_receivers_from_others(graph):
    apart = partitioned(graph, range(graph.num_nodes), rounds=2, update="receivers")
    others = graph.src != graph.dst
    phases = phases_by_kind(apart)
    assert ("cut" in phases) == bool(others.any())
    if "cut" in phases:
        assert phases["cut"].edges.equal(others.nonzero().flatten())
        assert phases["cut"].nodes.equal(graph.dst[others].unique())
    assert ("inside" in phases) == bool((~others).any())  # self-loops travel inside


@settings(max_examples=40, deadline=None)
@given(graph=undirected_graphs())
def test_states_agree_with_synchronous_ones_when_every_subgraph_is_a_node(graph):
    graph = graph.select_edges(graph.src != graph.dst)
    state = np.linspace(-1, 1, graph.num_nodes)
    apart = run_schedule(partitioned(graph, range(graph.num_nodes), rounds=3, update="receivers"), state)
    plain = run_schedule(synchronous(graph, rounds=3), state)
    receives = (graph.in_degree > 0).numpy()
    assert np.array_equal(apart[receives], plain[receives])
    assert np.array_equal(apart[~receives], state[~receives])


def test_members_of_lone_subgraphs_update_without_a_message():
    """The rule of the authors' code: K = N is then not synchronous propagation."""
    inside, cut = partitioned(chain(3), [0, 1, 2], rounds=1).rounds[0]
    assert (inside.num_messages, inside.num_updates) == (0, 3)
    assert (cut.num_messages, cut.num_updates) == (4, 3)


@pytest.mark.parametrize(("intra", "cut", "kinds"), [(0, 2, ["cut"]), (3, 0, ["inside"])])
def test_a_phase_of_no_steps_is_left_out(intra, cut, kinds):
    schedule = partitioned(chain(4), [0, 0, 1, 1], rounds=1, intra=intra, cut=cut)
    assert [(phase.kind, phase.repeat) for phase in schedule.rounds[0]] == [(kinds[0], max(intra, cut))]


def test_no_cut_phase_without_cut_edges():
    two_pairs = Graph([0, 1, 2, 3], [1, 0, 3, 2], num_nodes=4)
    assert [phase.kind for phase in partitioned(two_pairs, [0, 0, 1, 1]).rounds[0]] == ["inside"]


@pytest.mark.parametrize("wrap", [list, np.array, torch.tensor, lambda x: Partition(torch.tensor(x), 4)])
def test_takes_a_partition_or_plain_labels(wrap):
    inside, _ = partitioned(chain(4), wrap([1, 0, 0, 3]), rounds=1).rounds[0]
    assert inside.nodes.tolist() == [1, 2, 0, 3]
    assert inside.node_ptr.tolist() == [0, 2, 3, 3, 4]  # subgraph 2 is empty


def test_rounds_share_their_phases():
    assert len(list(partitioned(chain(4), [0, 0, 1, 1], rounds=7).distinct_phases())) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": [0, 1]}, "`part` must label each of the 3 nodes. Got 2 labels"),
        ({"part": [0, -1, 0]}, "Got -1"),
        ({"part": [0.0, 1.0, 1.0]}, "must hold integers"),
        ({"part": [0, 0, 0], "intra": -1}, "`intra` must be an integer of at least 0. Got -1"),
        ({"part": [0, 0, 0], "cut": 0.5}, "`cut` must be an integer of at least 0. Got 0.5"),
        ({"part": [0, 0, 0], "intra": 0, "cut": 0}, "One of `intra` and `cut` must be at least 1"),
        ({"part": [0, 0, 0], "update": "all"}, "`update` must be one of members, receivers. Got 'all'"),
        (
            {"part": [0, 0, 0], "virtual": "node"},
            "`virtual` must be one of None, graph, subgraph. Got 'node'",
        ),
    ],
)
def test_names_the_users_mistake(options, message):
    with pytest.raises(ValueError, match=message):
        partitioned(chain(3), **options)


def test_one_node_for_the_graph():
    schedule = partitioned(chain(3), [0, 1, 1], rounds=2, virtual="graph")
    graph = schedule.graph
    assert (schedule.num_virtual, graph.num_nodes, graph.num_edges) == (1, 4, 4 + 6)
    gather, scatter = schedule.rounds[1][-2:]
    assert (gather.kind, scatter.kind) == ("gather", "scatter")
    assert (gather.nodes.tolist(), sorted(scatter.nodes.tolist())) == ([3], [0, 1, 2])
    assert sorted(graph.src[gather.edges].tolist()) == sorted(graph.dst[scatter.edges].tolist()) == [0, 1, 2]
    assert gather.edge_ptr is None
    assert schedule.num_messages == 2 * (2 + 2 + 3 + 3)
    assert schedule.num_updates == 2 * (3 + 2 + 1 + 3)


@settings(max_examples=60, deadline=None)
@given(case=partitioned_graphs(), update=st.sampled_from(["members", "receivers"]))
def test_one_node_a_subgraph_that_is_not_empty(case, update):
    graph, labels = case
    schedule = partitioned(graph, labels, rounds=1, update=update, virtual="subgraph")
    filled = sorted(set(labels))
    assert schedule.num_virtual == len(filled)
    gather, scatter = schedule.rounds[0][-2:]
    assert gather.num_blocks == scatter.num_blocks == max(labels) + 1
    for part, ((writes, memory), (reads, members)) in enumerate(zip(gather.blocks(), scatter.blocks())):
        belong = [node for node in range(graph.num_nodes) if labels[node] == part]
        assert memory.tolist() == ([graph.num_nodes + filled.index(part)] if belong else [])
        assert members.tolist() == schedule.graph.src[writes].tolist() == belong
        assert schedule.graph.dst[reads].tolist() == belong
        assert set(schedule.graph.src[reads].tolist()) == set(memory.tolist())


def test_new_edge_types_follow_the_old_ones():
    typed = Graph([0, 1], [1, 0], 2, edge_type=[0, 2], edge_weight=[0.5, 0.25])
    graph = partitioned(typed, [0, 0], virtual="graph").graph
    assert graph.edge_type.tolist() == [0, 2, 3, 3, 4, 4]
    assert graph.edge_weight.tolist() == [0.5, 0.25, 1, 1, 1, 1]


def test_an_untyped_graph_becomes_typed_and_stays_unweighted():
    graph = partitioned(chain(2), [0, 0], virtual="graph").graph
    assert graph.edge_type.tolist() == [0, 0, 1, 1, 2, 2]
    assert graph.edge_weight is None


def test_weights_keep_their_precision():
    graph = Graph([0], [1], 2, edge_weight=torch.tensor([0.5], dtype=torch.float64))
    assert partitioned(graph, [0, 0], virtual="graph").graph.edge_weight.dtype == torch.float64


@pytest.mark.parametrize(("virtual", "rounds"), [("graph", 1), ("subgraph", 2)])
def test_a_virtual_node_shortens_a_long_chain(virtual, rounds):
    labels = torch.arange(20) // 10
    schedule = partitioned(chain(20), labels, rounds=2, virtual=virtual)
    reach = broadcast(chain(20), schedule)
    assert reach.solved
    assert reach.num_rounds == rounds


def test_the_virtual_node_alone_solves_broadcast_over_components():
    apart = Graph([], [], num_nodes=5)
    schedule = partitioned(apart, [0, 0, 1, 1, 1], rounds=1, intra=0, cut=0, virtual="graph")
    reach = broadcast(apart, schedule)
    assert (reach.solved, reach.num_messages, reach.num_updates) == (True, 10, 6)
    assert reach.num_components == 1
