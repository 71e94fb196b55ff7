"""A plan on a GPU gives what the same plan gives on the CPU."""

import copy

import numpy as np
import pytest
import torch

import gpnn
from gpnn.engine import NORMALIZATIONS, Streamed, propagate
from gpnn.nn import Scheduled
from tests.engine.test_lowered_phase import NUM_NODES, pair, run
from tests.engine.test_lowered_phase import SCHEDULES as ROW_SCHEDULES
from tests.oracle.engine_cases import SCHEDULES, make_cell, make_schedule, multigraph, states
from tests.oracle.propagate import walk

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
RUNNERS = ("fused", "streamed", Streamed(device="cpu"))


def results(cell: torch.nn.Module, graph: gpnn.Graph, name: str, device: str, runner: object) -> list[torch.Tensor]:
    plan = gpnn.lower(graph, make_schedule(name, graph), device=device, normalization="split")
    cell = copy.deepcopy(cell).to(device)
    leaf = states().to(device).requires_grad_()
    out = propagate(cell, plan, leaf, runner=runner)
    loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=device).view_as(out)).sum()
    return [value.detach().cpu() for value in (out, *torch.autograd.grad(loss, [leaf, *cell.parameters()]))]


@pytest.mark.parametrize("name", SCHEDULES)
def test_cells(name):
    graph = multigraph()
    for cell in (make_cell("gru", "linear"), make_cell("gcnii", "mlp", "max"), make_cell("lstm", "identity", "sum")):
        expected = results(cell, graph, name, "cpu", "fused")
        for runner in RUNNERS:
            for ours, theirs in zip(results(cell, graph, name, "cuda", runner), expected, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["synchronous", "partitioned", "held_cut"])
@pytest.mark.parametrize("update", ["gcn", "sage", "mlp", "residual", "gcn_residual", "linear"])
def test_cells_of_one_kind_of_edge(update, name):
    graph, cell = multigraph(num_types=1), make_cell(update, num_edge_types=1)
    expected = results(cell, graph, name, "cpu", "fused")
    for runner in RUNNERS:
        for ours, theirs in zip(results(cell, graph, name, "cuda", runner), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("num_types", [1, 3])
def test_weights_are_as_exact_as_the_states(rule, num_types):
    """Without weights of its own a graph's normalised ones must not be rounded to float32 on their way."""
    schedule = make_schedule("partitioned", graph := multigraph(weighted=False, num_types=num_types))
    for cell in (make_cell("linear", alpha=0.2), make_cell("gru")):
        expected = walk(cell, schedule, states().numpy(), rule=rule, self_loops=True)[-1]
        plan = gpnn.lower(graph, schedule, device="cuda", normalization=rule, self_loops=True)
        for runner in RUNNERS:
            ours = propagate(copy.deepcopy(cell).cuda(), plan, states().cuda(), runner=runner).detach().cpu().numpy()
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


def test_convolutions():
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(0)
    conv, graph = Scheduled(SAGEConv(3, 3).double()), multigraph()
    expected = results(conv, graph, "partitioned", "cpu", "fused")
    for runner in RUNNERS:
        for ours, theirs in zip(results(conv, graph, "partitioned", "cuda", runner), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("kind", ["plain", "all"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_lowered_on_a_gpu_run_like_their_edge_list_on_the_cpu(rule, kind, symmetric):
    own = {"weighted": kind == "all", "num_types": 3 if kind == "all" else 1}
    listed, rows = pair(symmetric=symmetric, **own)
    labels, cell = torch.arange(NUM_NODES) * 7 % 4, make_cell("gru", num_edge_types=listed.num_edge_types)
    state = torch.randn(NUM_NODES, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for make in ROW_SCHEDULES.values():
        found = []
        for graph, device in ((listed, "cpu"), (rows, "cuda")):
            plan = gpnn.lower(make(graph, labels), device=device, normalization=rule, self_loops=True)
            found.append([run(plan, cell.to(device), state.to(device), runner) for runner in ("fused", "streamed")])
        for here, there in zip(found[1], found[0]):
            for ours, theirs in zip(here, there):
                torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-11, atol=1e-11)
