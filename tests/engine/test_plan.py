"""lower, and the orders that a plan keeps apart."""

import pytest
import torch

import gpnn
from gpnn import Graph
from gpnn.schedule import partitioned, synchronous
from tests.oracle.engine_cases import SCHEDULES, make_schedule, multigraph, states
from tests.oracle.small_graphs import chain


@pytest.mark.parametrize("name", SCHEDULES)
def test_leaving_undoes_entering(name):
    plan = gpnn.lower(graph := multigraph(), make_schedule(name, graph))
    inside = plan.to_plan_order(states())
    assert inside.shape == (10 + plan.num_virtual, 3)
    assert plan.to_user_order(inside).equal(states())
    assert inside.sum().item() == pytest.approx(states().sum().item())  # virtual nodes start at zero


def test_nodes_of_a_subgraph_are_neighbours_in_a_plan():
    graph = chain(6)
    plan = gpnn.lower(graph, partitioned(graph, [1, 0, 1, 0, 1, 0]))
    assert plan.order.tolist() == [1, 3, 5, 0, 2, 4]
    inside = plan.rounds[0][0]
    assert [block.inputs for block in inside.blocks] == [slice(0, 3), slice(3, 6)]
    assert inside.whole.inputs == slice(0, 6)


def test_order_is_none_where_the_two_agree():
    graph = chain(6)
    assert gpnn.lower(graph, synchronous(graph)).order is None
    assert gpnn.lower(graph, partitioned(graph, [0, 0, 0, 1, 1, 1])).order is None


def test_rounds_that_are_alike_share_their_phases():
    graph = chain(6)
    plan = gpnn.lower(graph, partitioned(graph, [0, 0, 0, 1, 1, 1], rounds=3))
    assert all(a is b for a, b in zip(plan.rounds[0], plan.rounds[2]))


def test_counts_are_the_schedules():
    graph = chain(6)
    schedule = partitioned(graph, [0, 0, 0, 1, 1, 1], rounds=2, intra=2, virtual="subgraph")
    plan = gpnn.lower(graph, schedule)
    assert (plan.num_nodes, plan.num_virtual, plan.num_rounds, plan.num_edge_types) == (6, 2, 2, 3)
    assert (plan.num_messages, plan.num_updates) == (schedule.num_messages, schedule.num_updates)
    assert repr(plan).startswith("Plan(Schedule(rounds=2")


def test_takes_pyg_data():
    graph = multigraph()
    assert gpnn.lower(graph.to_data(), synchronous(graph)).num_nodes == 10


@pytest.mark.parametrize("virtual", [None, "graph", "subgraph"])
@pytest.mark.parametrize("typed", [True, False])
def test_a_schedule_alone_gives_the_same_plan(virtual, typed):
    graph = multigraph() if typed else chain(10)
    schedule = partitioned(graph, [0, 1] * 5, rounds=2, virtual=virtual)
    options = {"normalization": "graph", "self_loops": True}
    whole = gpnn.lower(graph, schedule, "cpu", "graph", self_loops=True)
    forms = [
        gpnn.lower(schedule, **options),
        gpnn.lower(schedule=schedule, device="cpu", **options),
        gpnn.lower(graph=graph, schedule=schedule, **options),
    ]
    for plan in forms:
        assert (plan.normalization, plan.num_nodes, plan.num_messages) == ("graph", 10, whole.num_messages)
        assert plan.edge_digest == whole.edge_digest == graph.digest().edges
        for phase, other in zip(plan.rounds[0], whole.rounds[0], strict=True):
            for ours, theirs in zip(phase.whole.operators, other.whole.operators, strict=True):
                assert torch.equal(ours.ptr, theirs.ptr)
                assert torch.equal(ours.col, theirs.col)


def test_lower_needs_one_schedule():
    graph = chain(4)
    schedule = synchronous(graph)
    with pytest.raises(ValueError, match=r"`lower` must get one schedule\. Got two"):
        gpnn.lower(schedule, schedule)
    with pytest.raises(ValueError, match=r"`schedule` must be a gpnn\.Schedule\. Got NoneType"):
        gpnn.lower(graph)
    with pytest.raises(ValueError, match=r"`schedule` must be a gpnn\.Schedule\. Got str"):
        gpnn.lower(graph, "synchronous")


def test_refuses_another_graphs_schedule():
    graph = multigraph()
    schedule = synchronous(graph)
    others = {
        "10 nodes. Got one of 9": chain(9),
        "32 edges. Got one of 31": graph.select_edges(torch.arange(31)),
        "`src` differs": Graph(graph.src.flip(0), graph.dst, 10, graph.edge_type, graph.edge_weight),
        "`edge_type` differs": Graph(graph.src, graph.dst, 10, None, graph.edge_weight),
        "`edge_weight` differs": Graph(graph.src, graph.dst, 10, graph.edge_type, graph.edge_weight * 2),
    }
    for complaint, other in others.items():
        with pytest.raises(ValueError, match=complaint):
            gpnn.lower(other, schedule)
    memory = partitioned(graph, [0] * 10, virtual="graph")
    gpnn.lower(graph, memory)
    with pytest.raises(ValueError, match="`dst` differs"):
        gpnn.lower(Graph(graph.src, graph.dst.flip(0), 10, graph.edge_type, graph.edge_weight), memory)


def test_states_that_do_not_fit_are_refused():
    graph = chain(3)
    with pytest.raises(ValueError, match=r"one row for each of the 3 nodes\. Got shape \[4, 2\]"):
        gpnn.lower(graph, synchronous(graph)).to_plan_order(torch.zeros(4, 2))


def test_chunks_are_as_large_as_the_largest_block(monkeypatch):
    monkeypatch.setattr("gpnn.engine.lower_schedule.MIN_CHUNK_ROWS", 1)
    graph = chain(8)
    cut = gpnn.lower(graph, partitioned(graph, [0, 0, 0, 1, 2, 2, 3, 3])).rounds[0][1]
    assert cut.num_rows == 5
    assert [block.num_rows for block in cut.chunks] == [3, 2]
    (everything,) = gpnn.lower(graph, synchronous(graph)).rounds[0]
    assert everything.chunks == (everything.whole,)
