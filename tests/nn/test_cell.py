"""Cells against PyTorch's and PyG's own."""

import pytest
import torch
from torch_geometric.nn import APPNP, GatedGraphConv, GCN2Conv, GCNConv, SAGEConv

import gpnn
from gpnn.engine import aggregate_messages, propagate
from gpnn.engine.step import Step
from gpnn.kernels.autograd import plain_operations
from gpnn.nn import GPNN, Cell, CellBank, MaskKey
from gpnn.nn.cell import DroppedCell, LinearMessage, advance_by_kernel, build_cell
from gpnn.nn.update import GCNIIUpdate, GRUUpdate, LinearUpdate, LSTMUpdate, SAGEUpdate
from tests.oracle.engine_cases import gradients, make_cell, make_schedule, multigraph, states


def plain_graph() -> gpnn.Graph:
    graph = multigraph(weighted=False, num_types=1)
    return graph.select_edges(graph.src != graph.dst)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_our_ggnn_is_pygs_given_its_weights():
    graph, width = plain_graph(), 4
    conv = GatedGraphConv(width, num_layers=3)
    cell = build_cell("linear", "gru", "sum", {}, width, 1, generator())
    bank = CellBank([build_cell("linear", "gru", "sum", {}, width, 1, generator()) for _ in range(3)])
    for ours, weight in zip(bank.cells, conv.weight):
        ours.message.weight.data = weight[None].clone()
        ours.update.load_state_dict(conv.rnn.state_dict())
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 3))
    x = states(width=width).float()
    edge_index = torch.stack([graph.src, graph.dst])
    torch.testing.assert_close(propagate(bank, plan, x), conv(x, edge_index))
    # one cell for all steps is the same convolution with its matrices equal
    conv.weight.data[:] = cell.message.weight.data
    conv.rnn.load_state_dict(cell.update.state_dict())
    torch.testing.assert_close(propagate(cell, plan, x), conv(x, edge_index))


def test_our_lstm_is_torchs():
    update = LSTMUpdate(3, generator())
    reference = torch.nn.LSTMCell(3, 3)
    reference.load_state_dict(update.state_dict())
    h, memory, m = (torch.randn(5, 3, generator=generator()) * scale for scale in (1, 2, 3))
    torch.testing.assert_close(update(torch.cat([h, memory], 1), m, None), torch.cat(reference(m, (h, memory)), 1))
    assert update.visible(update.start(h)).equal(h)


def test_linear_propagation_with_teleport_is_pygs_appnp():
    graph, x = plain_graph(), states()
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 4), normalization="symmetric", self_loops=True)
    cell = Cell(lambda state, edge_type: state, LinearUpdate(3, generator(), alpha=0.2))
    reference = APPNP(K=4, alpha=0.2)(x, torch.stack([graph.src, graph.dst]))
    torch.testing.assert_close(propagate(cell, plan, x), reference, rtol=0, atol=1e-6)


def test_initial_residual_and_identity_map_are_pygs_gcn2():
    graph, x = plain_graph(), states()
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 2), normalization="symmetric", self_loops=True)
    cell = make_cell("gcnii", alpha=0.3, theta=0.5)
    assert isinstance(cell.update, GCNIIUpdate)
    edge_index, state = torch.stack([graph.src, graph.dst]), x
    for layer in (1, 2):
        conv = GCN2Conv(3, alpha=0.3, theta=0.5, layer=layer).double()
        conv.weight1.data = cell.update.weight.data.clone()
        state = conv(state, x, edge_index).relu()
    torch.testing.assert_close(propagate(cell, plan, x), state, rtol=0, atol=1e-6)


def test_convolutions_are_pygs_given_their_weights():
    graph, x = plain_graph(), states()
    edge_index = torch.stack([graph.src, graph.dst])
    rules = {"gcn": {"normalization": "symmetric", "self_loops": True}, "sage": {}}
    for (name, rule), conv in zip(rules.items(), (GCNConv(3, 3), SAGEConv(3, 3))):
        cell, conv = make_cell(name), conv.double()
        ours = cell.update
        with torch.no_grad():
            ours.bias.copy_(torch.tensor([0.1, -0.2, 0.3]))
            if name == "gcn":
                conv.lin.weight.copy_(ours.weight_message.T)
                conv.bias.copy_(ours.bias)
            else:
                conv.lin_l.weight.copy_(ours.weight_message.T)
                conv.lin_r.weight.copy_(ours.weight_state.T)
                conv.lin_l.bias.copy_(ours.bias)
        plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 2), **rule)
        expected = conv(conv(x, edge_index).relu(), edge_index).relu()
        torch.testing.assert_close(propagate(cell, plan, x), expected, rtol=0, atol=1e-6)


def test_gru_starts_close_to_the_identity():
    update = GRUUpdate(3, generator())
    assert update.bias_ih.tolist() == [0.0] * 3 + [1.0] * 3 + [0.0] * 3


def test_one_type_shares_its_map_with_a_nodes_own_and_several_do_not():
    assert LinearMessage(3, 1, generator()).weight.shape == (1, 3, 3)
    typed = LinearMessage(3, 2, generator())
    assert typed.weight.shape == (3, 3, 3)
    assert typed(torch.eye(3), -1).equal(typed.weight[2])


def test_a_bank_chooses_by_round_or_by_kind():
    step = gpnn.engine.Step(round=7, kind="cut", repeat=0)
    assert CellBank([make_cell(), make_cell()]).choose(step) == 1
    bank = CellBank([make_cell(), make_cell()], ("inside", "cut"))
    assert bank.choose(step) == 1
    assert bank.choose(step._replace(kind="level")) == 0


@pytest.mark.parametrize("update", ["gru", "gcn", "sage", "mlp", "residual", "gcn_residual"])
@pytest.mark.parametrize("message", ["identity", "linear"])
@pytest.mark.parametrize("aggregate", ["mean", "sum"])
@pytest.mark.parametrize("rule", ["phase", "split"])
@pytest.mark.parametrize("synchronous", [False, True])
def test_a_step_equals_its_parts(update, message, aggregate, rule, synchronous):
    graph = multigraph(num_types=1)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph), normalization=rule)
    cell, state = make_cell(update, message=message, aggregate=aggregate, num_edge_types=1), states().requires_grad_()
    for phase in plan.rounds[0]:
        inputs = phase.whole.read(state)
        whole = advance_by_kernel(cell, phase.whole, inputs, Step(0, "any", 0, synchronous=synchronous))
        inputs = phase.whole.read(state)
        with plain_operations():
            messages = aggregate_messages(phase.whole, cell.update.visible(inputs), cell.message, aggregate)
            parts = cell(inputs[: phase.whole.num_rows], messages, Step(0, "inside", 0))
        torch.testing.assert_close(whole, parts)
        torch.testing.assert_close(gradients(cell, whole, [state]), gradients(cell, parts, [state]))


@pytest.mark.parametrize("options", [{"message": "mlp"}, {"aggregate": "max"}, {"reset": "before"}, {"update": "lstm"}])
def test_other_cells_take_their_own_way(options):
    graph = multigraph(num_types=1)
    block = gpnn.lower(graph, make_schedule("synchronous", graph)).rounds[0][0].whole
    assert advance_by_kernel(make_cell(num_edge_types=1, **options), block, states(), Step(0, "all", 0)) is None


def test_typed_edges_take_their_own_way():
    graph = multigraph()
    block = gpnn.lower(graph, make_schedule("synchronous", graph)).rounds[0][0].whole
    assert advance_by_kernel(make_cell(), block, states(), Step(0, "all", 0)) is None


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_states_in_bfloat16_stay_near_those_in_single(runner):
    graph = multigraph(num_types=1, weighted=False)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    cell, state = make_cell(num_edge_types=1).float(), states().float()
    exact = propagate(cell, plan, state, runner=runner)
    narrow = propagate(cell, plan, state.bfloat16(), runner=runner)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), exact, atol=0.05, rtol=0.05)


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


@pytest.mark.parametrize("update", ["residual", "gcn_residual", "gru", "lstm"])
def test_a_step_that_is_computed_again_sees_the_same_masks(update):
    plan, cell, found = plan_of(rounds=2), make_cell(update, "linear"), []
    for runner in ("fused", "streamed"):
        state = states().requires_grad_()
        dropped = DroppedCell(cell, 0.4, MaskKey(1, 2), plan)
        out = propagate(dropped, plan, state, runner=runner)
        found.append([out, *torch.autograd.grad(out.square().sum(), [state, *cell.parameters()])])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other)


def test_batch_normalisation_in_a_cell_sees_all_rows_of_a_step():
    graph, cell, state = plain_graph(), make_cell("batch_residual"), states()
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, 1))
    update = cell.update.train()
    messages = propagate(make_cell("linear", alpha=0.0), plan, state)
    change = state @ update.weight_state + messages @ update.weight_message + update.bias
    expected = state + ((change - change.mean(0)) / (change.var(0, correction=0) + 1e-5).sqrt()).relu()
    for runner in ("fused", "streamed"):
        torch.testing.assert_close(propagate(cell, plan, state, runner=runner), expected)
    assert not cell.local
    assert CellBank([cell]).eval().local


def test_blocks_are_not_normalised_each_on_its_own():
    graph = plain_graph()
    divided = gpnn.lower(graph, gpnn.schedule.partitioned(graph, [1, 0] * (graph.num_nodes // 2)))
    model, x = GPNN(4, 5, 3, cell="batch_residual", runner="streamed"), torch.randn(graph.num_nodes, 4)
    with pytest.raises(ValueError, match=r"all rows of a phase at once: .* Got a streamed engine and 2 blocks"):
        model(x, divided)
    assert model.eval()(x, divided).shape == (graph.num_nodes, 3)


def test_masks_follow_the_node_not_its_row():
    graph = multigraph(weighted=False, num_types=1)
    model, x = GPNN(4, 5, 3, cell="mlp", update_dropout=0.5, concat="none"), torch.randn(graph.num_nodes, 4)
    labels = [1, 0] * (graph.num_nodes // 2)
    divided = gpnn.lower(graph, gpnn.schedule.partitioned(graph, labels))
    assert divided.order.tolist() == DroppedCell(model.cell, 0.5, MaskKey(0), divided).nodes.tolist()
    assert not model(x, divided, MaskKey(0)).equal(model(x, divided, MaskKey(1)))
    model.eval()
    assert model(x, divided, MaskKey(0)).equal(model(x, divided, MaskKey(1)))


def test_an_update_of_ones_own_is_computed_as_it_says():
    class Halved(SAGEUpdate):
        def _activate(self, state, sums):
            return super()._activate(state, sums) / 2

    graph = multigraph(num_types=1)
    block = gpnn.lower(graph, make_schedule("synchronous", graph)).rounds[0][0].whole
    cell, step = make_cell("sage", num_edge_types=1), Step(0, "all", 0)
    own = Cell(cell.message, Halved(3, generator()).double())
    own.update.load_state_dict(cell.update.state_dict())
    torch.testing.assert_close(own.advance(block, states(), step), cell.advance(block, states(), step) / 2)


def test_an_update_needs_no_more_than_its_protocol_has():
    class Mean(torch.nn.Module):
        residual, local = False, True

        def start(self, state):
            return state

        def visible(self, working):
            return working

        def forward(self, state, messages, step):
            return (state + messages) / 2

    graph = multigraph(num_types=1, weighted=False)
    plan = gpnn.lower(graph, make_schedule("synchronous", graph))
    cell, state = Cell(make_cell(num_edge_types=1).message, Mean()), states().float()
    narrow = propagate(cell, plan, state.bfloat16())
    torch.testing.assert_close(narrow.float(), propagate(cell, plan, state), atol=0.05, rtol=0.05)
