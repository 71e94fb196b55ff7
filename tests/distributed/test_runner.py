"""Several processes give what one gives: states, gradients, counts, for every schedule, cell and normalisation."""

import pytest
import torch

import gpnn
from gpnn.engine import NORMALIZATIONS
from tests.oracle.engine_cases import SCHEDULES, make_schedule, multigraph
from tests.oracle.sharded_cases import (
    LABELS,
    convolution_case,
    order_case,
    owned_case,
    shard_case,
    traffic_case,
    whole_case,
)


def assert_same(results, plan, cell):
    """The pieces of all processes put together are the one process's states and gradients."""
    out, grads, state_grad = whole_case(plan, cell)
    nodes = torch.cat([result[0] for result in results])
    assert sorted(nodes.tolist()) == list(range(plan.num_nodes))
    for whole, pieces in ((out, 1), (state_grad, 3)):
        together = torch.empty_like(whole)
        together[nodes] = torch.cat([result[pieces] for result in results])
        torch.testing.assert_close(together, whole, rtol=0, atol=1e-12)
    for number, whole in enumerate(grads):
        shares = [result[2][number] for result in results if result[2][number] is not None]
        assert (whole is None) == (not shares)
        if whole is not None:
            torch.testing.assert_close(sum(shares), whole, rtol=0, atol=1e-11)
    for result in results:
        assert result[4] == (plan.num_messages, plan.num_updates)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_every_schedule(processes, name, size):
    graph = multigraph()
    cell = {"update": "gru", "message": "linear"}
    plan = gpnn.lower(graph, make_schedule(name, graph), normalization="symmetric_split")
    lowering = {"normalization": "symmetric_split"}
    assert_same(processes(owned_case, name, cell, lowering, {}, size=size), plan, cell)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_every_normalization(processes, rule):
    graph = multigraph()
    for name in ("partitioned", "synchronous", "graph_memory"):
        lowering = {"normalization": rule, "self_loops": True}
        plan = gpnn.lower(graph, make_schedule(name, graph), **lowering)
        assert_same(processes(owned_case, name, {}, lowering, {}, size=2), plan, {})


@pytest.mark.parametrize("update", ["gru", "lstm", "mlp", "linear", "gcnii"])
@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_every_cell(processes, update, aggregate):
    graph = multigraph()
    cell = {"update": update, "message": "mlp", "aggregate": aggregate}
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    assert_same(processes(owned_case, "partitioned", cell, {}, {}, size=2), plan, cell)


@pytest.mark.parametrize("options", [{"intra": 2, "cut": 2}, {"intra": 0}, {"cut": 0}, {"update": "receivers"}])
def test_a_schedule_made_of_each_shard(processes, options):
    graph = multigraph()
    lowering = {"normalization": "symmetric_phase", "self_loops": True}
    schedule = gpnn.schedule.partitioned(graph, gpnn.Partition(LABELS, 4), 2, **options)
    plan = gpnn.lower(graph, schedule, **lowering)
    results = processes(shard_case, "partitioned", options, {"message": "linear"}, lowering, size=2)
    assert_same(results, plan, {"message": "linear"})


@pytest.mark.parametrize("intra", [1, 3])
def test_the_cut_held_in_each_shard(processes, intra):
    graph = multigraph()
    lowering = {"normalization": "symmetric_phase", "self_loops": True}
    plan = gpnn.lower(graph, gpnn.schedule.held_cut(graph, gpnn.Partition(LABELS, 4), 2, intra), **lowering)
    results = processes(shard_case, "held_cut", {"intra": intra}, {"message": "linear"}, lowering, size=2)
    assert_same(results, plan, {"message": "linear"})


@pytest.mark.parametrize("size", [2, 4])
def test_held_messages_travel_once_per_round(processes, size):
    """Of four steps, forward and backward: a quarter or a half of what synchronous propagation sends, to the byte."""
    cases = (("synchronous", 4, None), ("held_cut", 4, 1), ("held_cut", 2, 2), ("held_cut", 1, 4))
    steps, *held = (sum(processes(traffic_case, *case, size=size)) for case in cases)
    assert held == [steps, steps / 2, steps / 4]
    assert steps > 0


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("name", ["held_cut", "partitioned"])
def test_gated_steps_of_a_subgraph_in_one_go(processes, runner, name):
    """Edges of one type, so that the kernel takes them; gates are stored, or computed again."""
    graph = multigraph(num_types=1)
    plan = gpnn.lower(graph, make_schedule(name, graph))
    for size, cell in ((1, {"message": "linear"}), (2, {"message": "linear"}), (4, {"aggregate": "sum"})):
        cell |= {"num_edge_types": 1}
        assert_same(processes(owned_case, name, cell, {}, {"num_types": 1}, runner, size=size), plan, cell)


def test_products_of_own_states_are_made_while_rows_travel(processes):
    forward, backward = ["start", "products", "wait"], ["start", "gradients of products", "wait"]
    assert processes(order_case, size=2) == [forward + backward] * 2


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("size", [2, 4])
def test_one_held_step_per_round_is_synchronous(processes, runner, size):
    graph = multigraph()
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 2))
    for cell in ({}, {"update": "lstm", "message": "linear"}, {"aggregate": "max"}):
        assert_same(processes(owned_case, "held_once", cell, {}, {}, runner, size=size), plan, cell)


def test_synchronous_of_each_shard(processes):
    graph = multigraph()
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 2), normalization="symmetric")
    assert_same(processes(shard_case, "synchronous", {}, {}, {"normalization": "symmetric"}, size=2), plan, {})


@pytest.mark.parametrize("name", ["partitioned", "synchronous", "held_cut", "held_memory"])
def test_states_computed_again_are_the_same(processes, name):
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule(name, graph))
    for cell in ({"update": "gcnii"}, {"update": "lstm", "message": "linear"}):
        assert_same(processes(owned_case, name, cell, {}, {}, "streamed", size=2), plan, cell)


def test_cells_and_runners_that_processes_cannot_share(processes):
    with pytest.raises(AssertionError, match="`runner` must be one of fused, streamed"):
        processes(owned_case, "partitioned", {}, {}, {}, "threaded", size=2)
    with pytest.raises(AssertionError, match="states of a node and its senders alone"):
        processes(convolution_case, size=2)
