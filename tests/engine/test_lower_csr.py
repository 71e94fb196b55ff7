"""A schedule lowered from CSR arrays gives what the same schedule gives by way of edge lists."""

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.engine import Streamed, propagate
from gpnn.engine.lower_schedule import lower_csr
from gpnn.engine.lowered_phase import BuiltPhase, LoweredPhase
from gpnn.nn import GPNN
from gpnn.nn.cell import build_cell
from gpnn.schedule import PhaseSpec, held_cut_phases, partitioned_phases, synchronous_phases


def case(seed: int = 0, num_nodes: int = 60, k: int = 4) -> tuple[gpnn.Graph, Tensor, Tensor]:
    """A symmetric multigraph with nodes that have no edge, labels of its nodes, and its nodes by label."""
    random = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(num_nodes - 5, (150,), generator=random) for _ in range(2))
    labels = torch.randint(k, (num_nodes,), generator=random)
    return gpnn.Graph(torch.cat([a, b]), torch.cat([b, a]), num_nodes), labels, labels.argsort(stable=True)


SCHEDULES = {  # phases, and the same schedule over an edge list
    "partitioned": (partitioned_phases(), gpnn.schedule.partitioned, {}),
    "steps": (partitioned_phases(2, 2), gpnn.schedule.partitioned, {"intra": 2, "cut": 2}),
    "inside": (partitioned_phases(cut=0), gpnn.schedule.partitioned, {"cut": 0}),
    "receivers": (partitioned_phases(update="receivers"), gpnn.schedule.partitioned, {"update": "receivers"}),
    "held": (held_cut_phases(3), gpnn.schedule.held_cut, {"intra": 3}),
}


def lowered(
    graph: gpnn.Graph, labels: Tensor, order: Tensor, phases: tuple[PhaseSpec, ...], rule: str, *, device: str
) -> gpnn.engine.Plan:
    rows = graph.in_edges()
    ptr, col = torch.from_numpy(rows.ptr).to(device), torch.from_numpy(rows.index).to(device)
    part_ptr = torch.cat([torch.zeros(1, dtype=torch.int64), labels.bincount().cumsum(0)])
    return lower_csr(ptr, col, order.to(device), part_ptr, phases, rounds=3, normalization=rule)


ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
@pytest.mark.parametrize("rule", ["phase", "graph"])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("aggregate", "keep_on_host"), [("mean", False), ("mean", True), ("max", False)])
def test_gradients_are_those_of_the_schedule(
    device: str, rule: str, name: str, aggregate: str, keep_on_host: bool
) -> None:
    phases, schedule_of, options = SCHEDULES[name]
    graph, labels, order = case()
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(2))
    aim = torch.randn(60, 8)
    plan = gpnn.lower(schedule_of(graph, gpnn.Partition(labels, 4), rounds=3, **options), normalization=rule)
    model = GPNN(5, 8, 8, aggregate=aggregate, concat="none")
    loss = (model(x, plan) * aim).sum()
    expected = torch.autograd.grad(loss, list(model.parameters()))

    csr = lowered(graph, labels, order, phases, rule, device=device)
    assert [fields(phase) for phase in csr.rounds[0]] == [fields(phase) for phase in plan.rounds[0]]
    place = "cpu" if keep_on_host else None
    model.runner = Streamed(device=place, features=place)
    model.to(device)
    ours = (model(x[order].to("cpu" if keep_on_host else device), csr) * aim[order].to(device)).sum()
    torch.testing.assert_close(ours.detach().cpu(), loss.detach(), rtol=1e-5, atol=1e-4)
    grads = torch.autograd.grad(ours, list(model.parameters()))
    for mine, theirs in zip(grads, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 4])
def test_synchronous_steps_by_parts(k: int) -> None:
    graph, labels, order = case(k=k)
    cell = build_cell("identity", "gru", "mean", {}, 8, 1, torch.Generator().manual_seed(1))
    x = torch.randn(60, 8, requires_grad=True)
    aim = torch.randn(60, 8)
    plan = gpnn.lower(graph, gpnn.schedule.synchronous(graph, rounds=3))
    expected = torch.autograd.grad((propagate(cell, plan, x) * aim).sum(), [x, *cell.parameters()])
    csr = lowered(graph, labels, order, synchronous_phases(), "phase", device="cpu")
    (ours_phase,), (theirs_phase,) = csr.rounds[0], plan.rounds[0]
    assert fields(ours_phase)[:-1] == fields(theirs_phase)[:-1]  # over parts it has blocks
    leaf = x.detach()[order].requires_grad_()
    out = Streamed()(cell, csr, leaf, initial=None, collect=False)[0]
    ours = torch.autograd.grad((out * aim[order]).sum(), [leaf, *cell.parameters()])
    torch.testing.assert_close(ours[0], expected[0][order], rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(ours[1:], expected[1:], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def fields(phase: LoweredPhase | BuiltPhase) -> tuple[object, ...]:
    """What a schedule says of a phase, and whether its blocks are independent."""
    counts = phase.num_edges, phase.num_held, phase.num_rows
    return phase.kind, phase.repeat, phase.closing, phase.sends_all, *counts, phase.independent


def test_the_blocks_of_inside_edges_are_their_own_transpose() -> None:
    (inside, cut), *_ = lowered(*case(), partitioned_phases(), "phase", device="cpu").rounds
    for block in inside.chunks:
        assert isinstance(block.inputs, slice)
        assert block.operators[0].t_row.data_ptr() == block.operators[0].col.data_ptr()
    assert all(block.num_inputs > block.num_rows for block in cut.chunks)


def test_faults_are_named() -> None:
    ptr, col, order, phases = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.arange(2), partitioned_phases()
    with pytest.raises(ValueError, match=r"`normalization` must be one of phase, graph\. Got 'split'"):
        lower_csr(ptr, col, order, torch.tensor([0, 2]), phases, rounds=1, normalization="split")
    with pytest.raises(ValueError, match=r"must cover the 2 nodes\. Got 2 and 1"):
        lower_csr(ptr, col, order, torch.tensor([0, 1]), phases, rounds=1)
    with pytest.raises(ValueError, match=r"`phases` must hold at least one phase\. Got none"):
        lower_csr(ptr, col, order, torch.tensor([0, 2]), partitioned_phases(0, 0), rounds=1)
    with pytest.raises(ValueError, match=r"`rounds` must be .*Got 0"):
        lower_csr(ptr, col, order, torch.tensor([0, 2]), phases, rounds=0)
