"""Phases that hold messages: every runner against plain torch written from the definition."""

import pytest
import torch
from torch_geometric.nn import GATv2Conv, GCNConv, GINConv, SAGEConv

import gpnn
from gpnn import Graph
from gpnn.engine import Streamed, propagate
from gpnn.engine.blockwise_backward import RowLoss
from gpnn.engine.saved_states import GivenState
from gpnn.nn import Scheduled
from gpnn.schedule import Phase, Schedule, held_cut, synchronous
from tests.oracle.engine_cases import gradients, make_cell, multigraph, states

LABELS = torch.tensor([0, 3, 1, 0, 3, 1, 0, 1, 3, 3])
RUNNERS = ("fused", "streamed")


@pytest.fixture(params=["steps together", "step by step"])
def way(request, monkeypatch):
    """All steps of a block in one kernel, or one step at a time, as larger blocks take them."""
    if request.param == "step by step":
        monkeypatch.setattr("gpnn.kernels.cpu_steps.MOST_BYTES", 0)


def mean_matrices(graph: Graph, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean over each node's whole neighbourhood as two matrices `[N, N]`: inside edges and cut edges."""
    whole = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    whole.index_put_((graph.dst, graph.src), torch.ones(graph.num_edges, dtype=torch.float64), accumulate=True)
    whole /= whole.sum(1, keepdim=True).clamp(min=1)
    same = labels[:, None] == labels[None]
    return whole * same, whole * ~same


def held_by_definition(cell, graph, labels, state, rounds, intra):
    """A GRU whose mean over the cut stays as it was at the start of the round."""
    inside, cut = mean_matrices(graph, labels)
    parts = (cell.update.weight_ih, cell.update.weight_hh, cell.update.bias_ih, cell.update.bias_hh)
    for _ in range(rounds):
        held = cut @ state
        for _ in range(intra):
            state = torch.gru_cell(inside @ state + held, state, *parts)
    return state


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("rounds", "intra"), [(1, 1), (2, 1), (1, 4), (2, 3)])
def test_values_and_gradients_are_those_of_the_definition(runner, rounds, intra, way):
    graph, cell, state = multigraph(weighted=False, num_types=1), make_cell(num_edge_types=1), states().requires_grad_()
    plan = gpnn.lower(held_cut(graph, LABELS, rounds, intra))
    ours = propagate(cell, plan, state, runner=runner)
    slow = held_by_definition(cell, graph, LABELS, state, rounds, intra)
    torch.testing.assert_close(ours, slow, rtol=0, atol=1e-12)
    for one, other in zip(gradients(cell, ours, [state]), gradients(cell, slow, [state])):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("update", ["gru", "linear", "lstm"])
def test_gradcheck(runner, update, way):
    graph, cell, state = multigraph(), make_cell(update, "linear"), states().requires_grad_()
    plan = gpnn.lower(held_cut(graph, LABELS, rounds=2, intra=2), normalization="symmetric", self_loops=True)
    assert torch.autograd.gradcheck(lambda h: propagate(cell, plan, h, runner=runner), (state,))


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("aggregate", ["mean", "sum", "max"])
@pytest.mark.parametrize(("labels", "intra"), [(LABELS, 1), (torch.zeros(10, dtype=torch.int64), 3)])
@pytest.mark.parametrize(("message", "num_types"), [("mlp", 3), ("linear", 1)])
def test_one_step_per_round_or_one_subgraph_is_synchronous(runner, aggregate, labels, intra, message, num_types, way):
    graph, state = multigraph(num_types=num_types), states().requires_grad_()
    cell = make_cell("gru", message, aggregate, num_types)
    held = gpnn.lower(held_cut(graph, labels, 2, intra), normalization="split", self_loops=True)
    plain = gpnn.lower(synchronous(graph, 2 * intra), normalization="split", self_loops=True)
    ours, theirs = (propagate(cell, plan, state, runner=runner) for plan in (held, plain))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    for one, other in zip(*(gradients(cell, out, [state]) for out in (ours, theirs))):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_the_kernel_takes_steps_together_only_where_they_fit(monkeypatch):
    graph, cell = multigraph(weighted=False, num_types=1), make_cell(num_edge_types=1)
    plan, calls = gpnn.lower(held_cut(graph, LABELS, 2, 3)), []
    from gpnn.kernels import cpu_steps

    fits = cpu_steps.fits
    monkeypatch.setattr(cpu_steps, "fits", lambda *given: calls.append(fits(*given)) or calls[-1])
    propagate(cell, plan, states(), runner="streamed")
    assert calls == [True] * 6  # three subgraphs that have nodes, two rounds
    assert not fits(states(), 1 << 20, 4)


def test_a_second_backward_pass_is_the_first():
    graph, cell, state = multigraph(num_types=1), make_cell(num_edge_types=1), states().requires_grad_()
    out = propagate(cell, gpnn.lower(held_cut(graph, LABELS, 1, 3)), state)
    first, second = (torch.autograd.grad(out.sum(), state, retain_graph=True)[0] for _ in range(2))
    assert first.equal(second)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("blocks", [True, False])
def test_edges_inside_a_block_may_be_held_too(runner, blocks):
    """0 ⇄ 1 in one block; what 0 sends is held, and so is what a node sends that does not update."""
    graph = Graph([0, 1, 3], [1, 0, 0], num_nodes=4)
    pointers = {"edge_ptr": [0, 1], "node_ptr": [0, 2], "held_ptr": [0, 2]} if blocks else {}
    phase = Phase(
        torch.tensor([1]),
        torch.tensor([0, 1]),
        2,
        "own",
        held=torch.tensor([0, 2]),
        **{name: torch.tensor(ptr) for name, ptr in pointers.items()},
    )
    cell = make_cell("linear", aggregate="sum", num_edge_types=1, alpha=0.0)
    state = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64).requires_grad_()
    out = propagate(cell, gpnn.lower(Schedule(graph, ((phase,),))), state, runner=runner)
    # first step: 0 ← 2 + 8, 1 ← 1; second: 0 ← 1 + 8, 1 ← 1 again, since what 0 sends is held
    assert out.flatten().tolist() == [9.0, 1.0, 4.0, 8.0]
    (grad,) = torch.autograd.grad((out * torch.tensor([[1.0], [10.0], [100.0], [1000.0]])).sum(), state)
    assert grad.flatten().tolist() == [11.0, 0.0, 100.0, 1001.0]


CONVOLUTIONS = {
    "SAGEConv": lambda: SAGEConv(3, 3),
    "GINConv": lambda: GINConv(torch.nn.Linear(3, 3)),
    "GATv2Conv": lambda: GATv2Conv(3, 3, heads=1, add_self_loops=False),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("runner", RUNNERS)
def test_convolutions_read_the_cut_as_it_was(name, runner):
    graph, state = multigraph(weighted=False, num_types=1), states().requires_grad_()
    torch.manual_seed(0)
    conv = CONVOLUTIONS[name]().double().eval()
    scheduled = Scheduled(conv, local=True).eval()
    ours = scheduled(state, gpnn.lower(held_cut(graph, LABELS, 2, intra=2)), runner=runner)
    crossing = LABELS[graph.src] != LABELS[graph.dst]
    sender = graph.src + 10 * crossing  # rows from 10 on are the states at the start of the round
    slow = state
    for _ in range(2):
        start = slow
        for _ in range(2):
            slow = conv(torch.cat([slow, start]), torch.stack([sender, graph.dst]))[:10]
    torch.testing.assert_close(ours, slow, rtol=0, atol=1e-12)
    for one, other in zip(*(gradients(scheduled, out, [state]) for out in (ours, slow))):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_convolution_that_reads_degrees_of_senders_is_refused():
    graph = multigraph(weighted=False, num_types=1)
    with pytest.raises(ValueError, match=r"such as held_cut, needs a cell whose rows follow from .* \(`local`\)"):
        Scheduled(GCNConv(3, 3))(states().float(), gpnn.lower(held_cut(graph, LABELS)))


def test_rounded_boundaries_stay_close():
    graph, cell, state = multigraph(), make_cell().float(), states().float().requires_grad_()
    plan = gpnn.lower(held_cut(graph, LABELS, rounds=3, intra=2))
    exact, rounded = (
        propagate(cell, plan, state, runner=each) for each in ("streamed", Streamed(dtype=torch.bfloat16))
    )
    torch.testing.assert_close(exact, rounded)
    for one, other in zip(*(gradients(cell, out, [state]) for out in (exact, rounded))):
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_built_plan_counts_and_runs_alike(runner):
    graph, cell, state = multigraph(), make_cell(), states()
    plan = gpnn.lower(held_cut(graph, LABELS, rounds=2, intra=3))
    built = plan.build(runner)
    assert (built.num_messages, built.num_updates) == (plan.num_messages, plan.num_updates)
    assert plan.num_messages == plan.schedule.num_messages
    for name in RUNNERS if runner == "fused" else ["streamed"]:
        torch.testing.assert_close(propagate(cell, built, state, runner=name), propagate(cell, plan, state))


SOME = torch.tensor([0, 2, 3, 5])  # plan rows: two of the three of one subgraph and of another, none of the third


@pytest.mark.parametrize("rows", [torch.arange(10), SOME], ids=["all", "some"])
@pytest.mark.parametrize(("rounds", "intra"), [(1, 4), (2, 3)])
def test_a_loss_of_rows_is_differentiated_with_the_last_round(rounds, intra, rows, way):
    """The value and the gradients of a pass forward and one back, where blocks are differentiated as they are done."""
    graph, cell, state = multigraph(weighted=False, num_types=1), make_cell(num_edge_types=1), states().requires_grad_()
    plan = gpnn.lower(held_cut(graph, LABELS, rounds, intra))
    slope = states(seed=7)
    by_row = slope[plan.order[rows]]
    slope[[node for node in range(10) if node not in plan.order[rows]]] = 0

    def share(final, places):
        return (final * by_row[places]).sum()

    loss = RowLoss(rows, share, ())
    together = Streamed().differentiate(cell, plan, GivenState(plan.to_plan_order(state)), loss)
    apart = (propagate(cell, plan, state) * slope).sum()
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-11)
    wanted = [state, *cell.parameters()]
    for one, other in zip(*(torch.autograd.grad(value, wanted, allow_unused=True) for value in (together, apart))):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("cell", [make_cell(num_edge_types=1), make_cell(num_edge_types=1, update="max_plus")])
@pytest.mark.parametrize(("rounds", "intra"), [(1, 1), (1, 4), (2, 3)])
def test_some_rows_after_the_last_round(cell, rounds, intra, way):
    plan = gpnn.lower(held_cut(multigraph(weighted=False, num_types=1), LABELS, rounds, intra))
    source, rows = GivenState(plan.to_plan_order(states())), SOME.flip(0)
    whole = propagate(cell, plan, states())
    (some,) = Streamed().run(cell, plan, source, rows=rows)
    torch.testing.assert_close(some, whole[plan.order[rows]].detach(), rtol=0, atol=1e-12)
    with torch.no_grad():
        (plain,) = Streamed().run(cell, plan, GivenState(plan.to_plan_order(states())), rows=rows)
    torch.testing.assert_close(plain, some.detach(), rtol=0, atol=1e-12)


def test_the_last_step_is_taken_for_rows_that_are_wanted_alone(monkeypatch):
    """And no step for a subgraph that has none of them."""
    from gpnn.kernels import cpu_steps

    updated, update = [], cpu_steps._Steps.update
    counted = lambda steps, *given: updated.append(len(given[1])) or update(steps, *given)  # noqa: E731
    monkeypatch.setattr(cpu_steps._Steps, "update", counted)
    graph, cell = multigraph(weighted=False, num_types=1), make_cell(num_edge_types=1)
    plan = gpnn.lower(held_cut(graph, LABELS, 1, 3))
    with torch.no_grad():
        Streamed().run(cell, plan, GivenState(plan.to_plan_order(states())), rows=SOME)
    sizes = [block.num_rows for block in plan.rounds[0][0].chunks]
    assert sizes == [3, 3, 4]
    assert updated == [3, 3, 2, 3, 3, 2]


def test_steps_differentiated_at_once_are_computed_once(monkeypatch):
    """Each of the three subgraphs that have nodes: in the round's one visit, instead of forward and again backward."""
    from gpnn.kernels import cpu_steps

    computed, compute = [], cpu_steps._Steps.compute
    counted = lambda *given, **named: computed.append(1) or compute(*given, **named)  # noqa: E731
    monkeypatch.setattr(cpu_steps._Steps, "compute", counted)
    graph, cell, state = multigraph(weighted=False, num_types=1), make_cell(num_edge_types=1), states().requires_grad_()
    plan = gpnn.lower(held_cut(graph, LABELS, 1, 3))
    loss = RowLoss(torch.arange(10), lambda final, places: final.sum(), ())
    Streamed().differentiate(cell, plan, GivenState(plan.to_plan_order(state)), loss).backward()
    assert len(computed) == 3
