"""Cells whose step is one kernel agree with message, aggregation and update one after the other."""

import pytest
import torch

import gpnn
from gpnn.engine import aggregate_messages, propagate
from gpnn.engine.step import Step
from gpnn.nn.gated import advance_gated
from tests.oracle.engine_cases import gradients, make_cell, make_schedule, multigraph, states


@pytest.mark.parametrize("message", ["identity", "linear"])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("rule", ["phase", "split"])
@pytest.mark.parametrize("synchronous", [False, True])
def test_a_step_equals_its_parts(message, aggregate, rule, synchronous):
    graph = multigraph(num_types=1)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph), normalization=rule)
    cell, state = make_cell(message=message, aggregate=aggregate, num_edge_types=1), states().requires_grad_()
    for phase in plan.rounds[0]:
        whole = advance_gated(cell, phase.whole, phase.whole.read(state), Step(0, "any", 0, synchronous=synchronous))
        inputs = phase.whole.read(state)
        messages = aggregate_messages(phase.whole, inputs, cell.message, aggregate)
        parts = cell(inputs[: phase.whole.num_rows], messages, Step(0, "inside", 0))
        torch.testing.assert_close(whole, parts)
        torch.testing.assert_close(gradients(cell, whole, [state]), gradients(cell, parts, [state]))


@pytest.mark.parametrize("options", [{"message": "mlp"}, {"aggregate": "max"}, {"reset": "before"}, {"update": "lstm"}])
def test_other_cells_take_their_own_way(options):
    graph = multigraph(num_types=1)
    block = gpnn.lower(graph, make_schedule("synchronous", graph)).rounds[0][0].whole
    assert advance_gated(make_cell(num_edge_types=1, **options), block, states(), Step(0, "all", 0)) is None


def test_typed_edges_take_their_own_way():
    graph = multigraph()
    block = gpnn.lower(graph, make_schedule("synchronous", graph)).rounds[0][0].whole
    assert advance_gated(make_cell(), block, states(), Step(0, "all", 0)) is None


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_states_in_bfloat16_stay_near_those_in_single(runner):
    graph = multigraph(num_types=1, weighted=False)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    cell, state = make_cell(num_edge_types=1).float(), states().float()
    exact = propagate(cell, plan, state, runner=runner)
    narrow = propagate(cell, plan, state.bfloat16(), runner=runner)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), exact, atol=0.05, rtol=0.05)
