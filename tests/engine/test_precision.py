"""The weights of messages are as exact as the states: a float64 model sees none that was rounded to float32."""

import numpy as np
import pytest
import torch

import gpnn
from gpnn import Graph
from gpnn.engine import NORMALIZATIONS, lower_csr, propagate
from tests.oracle.engine_cases import make_cell, make_schedule, multigraph, states
from tests.oracle.propagate import walk
from tests.oracle.sharded_cases import owned_case

EXACT = 1e-14


def graph_of(weights: str, num_types: int = 3) -> Graph:
    graph = multigraph(num_types=num_types)
    if weights == "none":
        return Graph(graph.src, graph.dst, graph.num_nodes, graph.edge_type)
    assert graph.edge_weight is not None
    return Graph(graph.src, graph.dst, graph.num_nodes, graph.edge_type, graph.edge_weight.float())


@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("weights", ["none", "float32"])
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_every_rule_agrees_with_the_oracle(rule: str, weights: str, runner: str) -> None:
    for name in ("partitioned", "subgraph_memory"):
        schedule = make_schedule(name, graph := graph_of(weights))
        for self_loops in (False, True):
            plan = gpnn.lower(graph, schedule, normalization=rule, self_loops=self_loops)
            cell = make_cell("linear", alpha=0.2)
            expected = walk(cell, schedule, states().numpy(), rule=rule, self_loops=self_loops)[-1]
            for each in (plan, plan.build(runner)):
                ours = propagate(cell, each, states(), runner=runner).numpy()
                np.testing.assert_allclose(ours, expected, rtol=0, atol=EXACT * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_the_gated_step_agrees_with_the_oracle(rule: str) -> None:
    schedule = make_schedule("partitioned", graph := graph_of("none", num_types=1))
    plan = gpnn.lower(graph, schedule, normalization=rule, self_loops=True)
    cell = make_cell("gru", num_edge_types=1)
    expected = walk(cell, schedule, states().numpy(), rule=rule, self_loops=True)[-1]
    for runner in ("fused", "streamed"):
        ours = propagate(cell, plan, states(), runner=runner).detach().numpy()
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
def test_several_processes_agree_with_the_oracle(processes, rule: str) -> None:  # type: ignore[no-untyped-def]
    graph = multigraph(weighted=False)
    schedule, cell = make_schedule("partitioned", graph), {"update": "linear", "alpha": 0.2}
    expected = walk(make_cell(**cell), schedule, states().numpy(), rule=rule, self_loops=True)[-1]
    lowering = {"normalization": rule, "self_loops": True}
    for nodes, ours, *_ in processes(owned_case, "partitioned", cell, lowering, {"weighted": False}, size=2):
        atol = EXACT * max(1, np.abs(expected).max())
        np.testing.assert_allclose(ours.numpy(), expected[nodes.numpy()], rtol=0, atol=atol)


@pytest.mark.parametrize("rule", ["phase", "graph"])
def test_csr_plans_agree_with_the_oracle(rule: str) -> None:
    graph = graph_of("none", num_types=1).to_undirected()
    labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    rows, ptr = graph.in_edges(), torch.tensor([0, 3, 7, 10])
    arrays = (*(torch.from_numpy(each) for each in rows[:2]), torch.arange(10), ptr)
    plan = lower_csr(*arrays, gpnn.schedule.partitioned_phases(), rounds=2, normalization=rule)
    cell = make_cell("linear", alpha=0.0)
    schedule = gpnn.schedule.partitioned(graph, labels, rounds=2)
    expected = walk(cell, schedule, states().numpy(), rule=rule)[-1]
    touched = propagate(cell, plan, states(), runner="streamed").numpy()
    np.testing.assert_allclose(touched, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_of_three_ones_is_one(dtype: torch.dtype) -> None:
    graph = Graph([1, 2, 3], [0, 0, 0], num_nodes=4)
    cell = make_cell("linear", num_edge_types=1, width=1, alpha=0.0)
    for runner in ("fused", "streamed"):
        plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, rounds=1))
        assert propagate(cell, plan, torch.ones(4, 1, dtype=dtype), runner=runner)[0].item() == 1


def test_a_plan_keeps_weights_of_edges_in_float32() -> None:
    """Exact ones are made for states in float64 alone: twice the bytes of an edge are for them to pay."""
    graph = graph_of("none", num_types=1)
    block = gpnn.lower(graph, gpnn.schedule.synchronous(graph), normalization="symmetric").rounds[0][0].whole
    assert block.operators_for(torch.float32)[0].weight.dtype == torch.float32
    assert block.operators_for(torch.float64)[0].weight.dtype == torch.float64
    assert block.operators_for(torch.float64)[0].col is block.operators[0].col
