import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import broadcast, partitioned
from tests.oracle.small_graphs import chain, partitioned_graphs


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
