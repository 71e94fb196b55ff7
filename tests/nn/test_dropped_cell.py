import pytest
import torch

import gpnn
from gpnn.engine import propagate
from gpnn.nn import GPNN, MaskKey
from gpnn.nn.dropped_cell import DroppedCell
from tests.oracle.engine_cases import make_cell, make_schedule, multigraph, states


def plan_of(name="partitioned", **options):
    graph = multigraph()
    return gpnn.lower(graph, make_schedule(name, graph, **options))


def test_a_mask_scales_the_change_and_keeps_what_was():
    plan, cell, state = plan_of("synchronous", rounds=1), make_cell("residual"), states()
    cell.finish = lambda working: working
    whole = propagate(cell, plan, state) - state
    dropped = propagate(DroppedCell(cell, 0.5, MaskKey(3), plan), plan, state) - state
    kept = dropped != 0
    assert 0 < int((kept & (whole != 0)).sum()) < int((whole != 0).sum())
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


@pytest.mark.parametrize("update", ["residual", "gru", "lstm"])
def test_a_step_that_is_computed_again_sees_the_same_masks(update):
    plan, cell, found = plan_of(rounds=2), make_cell(update, "linear"), []
    for runner in ("fused", "streamed"):
        state = states().requires_grad_()
        dropped = DroppedCell(cell, 0.4, MaskKey(1, 2), plan)
        out = propagate(dropped, plan, state, runner=runner)
        found.append([out, *torch.autograd.grad(out.square().sum(), [state, *cell.parameters()])])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other)


def test_masks_follow_the_node_not_its_row():
    graph = multigraph(weighted=False, num_types=1)
    model, x = GPNN(4, 5, 3, cell="mlp", update_dropout=0.5, concat="none"), torch.randn(graph.num_nodes, 4)
    labels = [1, 0] * (graph.num_nodes // 2)
    divided = gpnn.lower(graph, gpnn.schedule.partitioned(graph, labels))
    assert divided.order.tolist() == DroppedCell(model.cell, 0.5, MaskKey(0), divided).nodes.tolist()
    assert not model(x, divided, MaskKey(0)).equal(model(x, divided, MaskKey(1)))
    model.eval()
    assert model(x, divided, MaskKey(0)).equal(model(x, divided, MaskKey(1)))
