"""The streamed runner gives the fused runner's states and gradients."""

from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.nn import SAGEConv

import gpnn
from gpnn import Graph
from gpnn.engine import Streamed, propagate, recompute
from gpnn.nn import UPDATES, CellBank, Scheduled
from gpnn.nn.cell import build_cell
from gpnn.nn.update import ConvolutionUpdate
from tests.oracle.engine_cases import SCHEDULES, gradients, make_cell, make_schedule, multigraph, states
from tests.oracle.parameters import rest_thorough


def assert_same(cell, plan, *, runner="streamed", collect=False, tolerance=1e-11, separate_initial=False) -> None:
    """States, and gradients of states, initial states and parameters, agree with the fused runner's."""
    results = []
    for run in ("fused", runner):
        inputs = [states().requires_grad_()]
        initial = None
        if separate_initial:
            inputs.append(initial := states(seed=5).requires_grad_())
        out = propagate(cell, plan, inputs[0], initial=initial, runner=run, collect=collect)
        results.append([*(out if collect else [out]), *gradients(cell, out, inputs)])
    for fused, streamed in zip(*results, strict=True):
        assert (fused is None) == (streamed is None)
        if fused is not None:
            torch.testing.assert_close(streamed, fused, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_cell_under_every_schedule(name):
    plan = gpnn.lower(graph := multigraph(), make_schedule(name, graph), normalization="split", self_loops=True)
    for update in UPDATES:
        assert_same(make_cell(update, "linear").eval(), plan)  # in training a batch norm wants all rows at once
    for aggregate in ("sum", "max", "min"):
        assert_same(make_cell("gru", "mlp", aggregate), plan)
    assert_same(make_cell("linear", alpha=0.2), plan, separate_initial=True)
    assert_same(make_cell("gru"), plan, collect=True)


@pytest.mark.parametrize("name", SCHEDULES)
def test_phases_cut_into_chunks(name, small_chunks):
    plan = gpnn.lower(graph := multigraph(), make_schedule(name, graph))
    assert any(len(phase.chunks) > 1 for phases in plan.rounds for phase in phases)
    for update in ("gru", "gcnii"):
        assert_same(make_cell(update, "linear"), plan, collect=True)


@pytest.mark.parametrize("intra", [1, 2])
def test_rows_between_phases_are_kept(intra, small_chunks, monkeypatch):
    """What the cut phase reads is kept in every round, and no phase inside is computed without its gradients again."""
    graph = multigraph(num_types=1)
    labels = torch.arange(10) % 3
    plan = gpnn.lower(graph, gpnn.schedule.partitioned(graph, labels, rounds=3, intra=intra, cut=2))
    for cell in (make_cell("gru", num_edge_types=1), make_cell("gcnii", "linear", num_edge_types=1)):
        assert_same(cell, plan, runner=Streamed(phases=True), collect=True)
    kinds = []
    do_phase = recompute.Recomputation.do_phase
    monkeypatch.setattr(
        recompute.Recomputation, "do_phase", lambda *given: kinds.append(given[1].kind) or do_phase(*given)
    )
    counts = []
    for runner in ("streamed", Streamed(phases=True)):
        kinds.clear()
        propagate(make_cell("gru", num_edge_types=1), plan, states().requires_grad_(), runner=runner).sum().backward()
        counts.append(kinds.count("inside"))
    assert counts == [5, 3]


def test_shared_cells_and_the_ones_no_step_uses():
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph, rounds=3))
    assert_same(CellBank([make_cell("mlp"), make_cell("gru"), make_cell("mlp")]), plan)
    assert_same(CellBank([make_cell("mlp"), make_cell("gru"), make_cell("gru")], ("inside", "cut", "gather")), plan)


@pytest.mark.parametrize("update", UPDATES)
def test_gradcheck_of_both_runners(update, small_chunks):
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph, rounds=1), normalization="split")
    cell = make_cell(update, "linear", width=2)
    cell.update.requires_grad_(update != "max_plus")  # its gradient goes straight through a rounding
    if isinstance(cell.update, ConvolutionUpdate):
        nn.init.uniform_(cell.update.bias, 0.1, 0.5)  # a node without a message is not where a ReLU has its corner
    for runner in ("fused", "streamed"):
        # gradcheck moves its inputs in place, and the cell's parameters are among them
        inputs = (states(width=2).requires_grad_(), *(each for each in cell.parameters() if each.requires_grad))
        run = partial(propagate, cell, plan, runner=runner)
        assert torch.autograd.gradcheck(lambda state, *_, run=run: run(state), inputs, fast_mode=True)


def test_single_precision_on_a_planted_graph():
    random = torch.Generator().manual_seed(0)
    size, parts = 3000, 10
    src = torch.randint(size, (20_000,), generator=random)
    near = (src // 300) * 300 + torch.randint(300, (20_000,), generator=random)
    dst = torch.where(
        torch.rand(20_000, generator=random) < 0.9, near, torch.randint(size, (20_000,), generator=random)
    )
    graph = Graph(torch.cat([src, dst]), torch.cat([dst, src]), size)
    plan = gpnn.lower(graph, gpnn.schedule.partitioned(graph, torch.arange(size) // 300, rounds=3, intra=2))
    assert len(plan.rounds[0][0].blocks) == parts
    cell = build_cell("linear", "gru", "mean", {}, 16, 1, random)
    state = torch.randn(size, 16, generator=random)
    results = []
    for runner in ("fused", "streamed"):
        leaf = state.clone().requires_grad_()
        out = propagate(cell, plan, leaf, runner=runner)
        results.append([out.detach(), *gradients(cell, out, [leaf])])
    for fused, streamed in zip(*results):
        torch.testing.assert_close(streamed, fused, rtol=2e-5, atol=2e-5 * float(fused.abs().max()))


def test_boundaries_in_half_precision_and_on_disk(tmp_path):
    """On disk the result is exact; in bf16 states are exact and gradients within 2 % of their largest entry."""
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph, rounds=3))
    cell = make_cell("gru", "linear")
    assert_same(cell, plan, runner=Streamed(folder=tmp_path / "states"))
    assert not list((tmp_path / "states").iterdir())  # files go with the pass that made them
    leaf = states().requires_grad_()
    exact = propagate(cell, plan, leaf, runner="fused")
    rounded = propagate(cell, plan, leaf, runner=Streamed(dtype=torch.bfloat16))
    torch.testing.assert_close(rounded, exact, rtol=0, atol=1e-11)
    pairs = list(zip(gradients(cell, exact, [leaf]), gradients(cell, rounded, [leaf])))
    for fused, streamed in pairs:
        torch.testing.assert_close(streamed, fused, rtol=0, atol=0.02 * float(fused.abs().max()))
    assert any(not streamed.equal(fused) for fused, streamed in pairs)


def test_evaluation_keeps_no_boundaries(monkeypatch):
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph))
    cell = make_cell()
    expected = propagate(cell, plan, states())
    monkeypatch.setattr("gpnn.engine.streamed.Boundary", None)  # a call would raise
    with torch.no_grad():
        torch.testing.assert_close(propagate(cell, plan, states(), runner="streamed"), expected)


def test_a_state_changed_between_the_passes_is_refused():
    plan = gpnn.lower(graph := multigraph(), gpnn.schedule.synchronous(graph, 2))
    cell, state = make_cell(), states().requires_grad_() * 1
    out = propagate(cell, plan, state, runner="streamed")
    state.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_only_some_rounds_receive_gradients():
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph, rounds=3))
    cell = make_cell()
    results = []
    for runner in ("fused", "streamed"):
        leaf = states().requires_grad_()
        collected = propagate(cell, plan, leaf, runner=runner, collect=True)
        results.append(torch.autograd.grad(collected[1].square().sum(), leaf)[0])
    torch.testing.assert_close(*results, rtol=0, atol=1e-11)


@pytest.fixture
def shared_blocks(monkeypatch: pytest.MonkeyPatch, small_chunks):
    """Two threads that take blocks of any size, until the test is over."""
    monkeypatch.setattr(recompute, "WORTH_ROWS", 0)
    yield lambda threads: torch.set_num_threads(threads)
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", rest_thorough(SCHEDULES, ["partitioned", "subgraph_memory"]))
def test_blocks_on_several_threads_change_no_bit(name, shared_blocks):
    plan = gpnn.lower(graph := multigraph(), make_schedule(name, graph), normalization="split")
    for cell in (make_cell("gru", "linear"), make_cell("linear", alpha=0.2), make_cell("gcnii", "mlp", "max")):
        results = []
        for threads in (1, 2):
            shared_blocks(threads)
            inputs = [states().requires_grad_(), states(seed=5).requires_grad_()]
            out = propagate(cell, plan, inputs[0], initial=inputs[1], runner="streamed", collect=True)
            results.append([*out, *gradients(cell, out, inputs)])
            assert torch.get_num_threads() == threads
        for one, two in zip(*results, strict=True):
            assert (one is None and two is None) or torch.equal(one, two)


def test_foreign_convolutions_and_autocast_keep_to_one_thread(shared_blocks, monkeypatch):
    plan = gpnn.lower(graph := multigraph(), make_schedule("partitioned", graph))
    shared_blocks(2)
    calls = []
    monkeypatch.setattr(recompute, "share_calls", lambda count, do: calls.append(count) or map(do, range(count)))
    state = states().float()
    cell = make_cell("gru", "linear").float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        propagate(cell, plan, state, runner="streamed")
    Scheduled(SAGEConv(state.shape[1], state.shape[1]))(state, plan, runner="streamed")
    assert not calls
    propagate(cell, plan, state, runner="streamed")
    assert calls


@pytest.mark.parametrize("update", ["members", "receivers"])
def test_the_last_round_of_two_phases_is_not_recomputed(monkeypatch, update):
    """Its inside phase is done once, forward; a second backward pass does it again, to the same gradients."""
    graph, state = multigraph(), states().requires_grad_()
    cell = make_cell()
    plan = gpnn.lower(gpnn.schedule.partitioned(graph, [0, 1] * 5, rounds=3, update=update))
    done, do_phase = [], recompute.Recomputation.do_phase

    def count(self, phase, steps, *rest):
        done.append((steps[0].round, phase.kind))
        return do_phase(self, phase, steps, *rest)

    monkeypatch.setattr(recompute.Recomputation, "do_phase", count)
    out = propagate(cell, plan, state, runner="streamed")
    assert [done.count((number, "inside")) for number in range(3)] == [1, 1, 1]
    first = torch.autograd.grad(out.sum(), state, retain_graph=True)[0]
    assert [done.count((number, "inside")) for number in range(3)] == [2, 2, 1]
    second = torch.autograd.grad(out.sum(), state)[0]
    assert [done.count((number, "inside")) for number in range(3)] == [3, 3, 2]
    assert first.equal(second)
    fused = torch.autograd.grad(propagate(cell, plan, state).sum(), state)[0]
    torch.testing.assert_close(first, fused, rtol=0, atol=1e-11)


def test_a_first_phase_is_done_again_for_the_rows_that_the_second_reads(monkeypatch):
    """Nodes 2, 3, 5 and 6 of a path in three subgraphs are at the cut: in two rounds of three, four rows of nine."""
    from gpnn.kernels import cpu_steps

    updated, update = [], cpu_steps._Steps.update
    counted = lambda steps, *given: updated.append(len(given[1])) or update(steps, *given)  # noqa: E731
    monkeypatch.setattr(cpu_steps._Steps, "update", counted)
    path = torch.arange(8)
    graph = Graph(torch.cat([path, path + 1]), torch.cat([path + 1, path]), 9)
    plan = gpnn.lower(graph, gpnn.schedule.partitioned(graph, torch.arange(9) // 3, rounds=3))
    cell, results = make_cell("gru", num_edge_types=1), []
    for runner in ("fused", "streamed"):
        leaf = states()[:9].clone().requires_grad_()
        out = propagate(cell, plan, leaf, runner=runner)
        results.append(gradients(cell, out, [leaf]))
    for fused, streamed in zip(*results, strict=True):
        torch.testing.assert_close(streamed, fused, rtol=0, atol=1e-11)
    assert updated == [1, 2, 1, 1, 2, 1]
