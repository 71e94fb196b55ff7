"""PyG convolutions under any schedule; test_convolutions.py tries every one of them."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

import gpnn
from gpnn import Graph
from gpnn.nn import Scheduled
from gpnn.schedule import Schedule, partitioned, synchronous
from tests.oracle.engine_cases import gradients, make_schedule, multigraph, states

WIDTH, ATTRIBUTES = 4, 2


def convolution(name: str, width: int = WIDTH) -> nn.Module:
    torch.manual_seed(0)
    made = {
        "GCNConv": lambda: pyg.GCNConv(WIDTH, width),
        "SAGEConv": lambda: pyg.SAGEConv(WIDTH, width),
        "GATv2Conv": lambda: pyg.GATv2Conv(WIDTH, width // 2, heads=2, edge_dim=ATTRIBUTES),
        "GINConv": lambda: pyg.GINConv(nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, width))),
        "TransformerConv": lambda: pyg.TransformerConv(WIDTH, width, edge_dim=ATTRIBUTES),
        "RGCNConv": lambda: pyg.RGCNConv(WIDTH, width, num_relations=5),
        "GatedGraphConv": lambda: pyg.GatedGraphConv(width, num_layers=1),
        "APPNP": lambda: pyg.APPNP(K=1, alpha=0.1),
        "GCN2Conv": lambda: pyg.GCN2Conv(width, alpha=0.3, theta=0.5, layer=1),
    }
    return made[name]().double()


CONVOLUTIONS = ["GCNConv", "SAGEConv", "GATv2Conv", "GINConv", "TransformerConv", "RGCNConv", "GatedGraphConv", "APPNP"]
CONVOLUTIONS += ["GCN2Conv"]
LOCAL = {"SAGEConv", "GATv2Conv", "GINConv", "TransformerConv", "RGCNConv", "GatedGraphConv"}


def typed_graph() -> Graph:
    """Typed and weighted, weights above zero, since degrees are their sums."""
    graph = multigraph()
    return Graph(graph.src, graph.dst, 10, graph.edge_type, graph.edge_weight.abs())


def edge_attributes(count: int) -> torch.Tensor:
    return torch.randn(count, ATTRIBUTES, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def call(conv: nn.Module, graph: Graph, edges: torch.Tensor, state: torch.Tensor, initial: torch.Tensor):
    """The convolution by hand over some of the edges."""
    scheduled = Scheduled(conv)
    given = {
        "edge_type": graph.edge_type,
        "edge_weight": graph.edge_weight,
        "edge_attr": edge_attributes(len(graph.src)),
    }
    given = {name: of[edges] for name, of in given.items() if name in scheduled.takes and of is not None}
    if "x_0" in scheduled.takes:
        given["x_0"] = initial
    return conv(state, edge_index=torch.stack([graph.src, graph.dst])[:, edges], **given)


def by_hand(conv: nn.Module, schedule: Schedule, state: torch.Tensor) -> torch.Tensor:
    initial = state
    for phases in schedule.rounds:
        for phase in phases:
            for _ in range(phase.repeat):
                output = call(conv, schedule.graph, phase.edges, state, initial)
                state = state.index_copy(0, phase.nodes, output[phase.nodes])
    return state


def attributes_for(scheduled: Scheduled, graph: Graph) -> torch.Tensor | None:
    return edge_attributes(graph.num_edges) if "edge_attr" in scheduled.takes else None


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_one_synchronous_round_is_the_convolution_itself(name):
    graph, x = typed_graph(), states(width=WIDTH)
    plan = gpnn.lower(graph, synchronous(graph, 1))
    scheduled = Scheduled(convolution(name))
    ours = scheduled(x, plan, attributes_for(scheduled, graph))
    whole = call(scheduled.conv, graph, torch.arange(graph.num_edges), x, x)
    torch.testing.assert_close(ours, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_phases_equal_calling_it_by_hand_and_runners_agree(name):
    graph, scheduled = typed_graph(), Scheduled(convolution(name))
    attributes = attributes_for(scheduled, graph)
    for kind in ("partitioned", "receivers", "sequential", "random_edges"):
        schedule = make_schedule(kind, graph)
        plan, results = gpnn.lower(graph, schedule), []
        for runner in ("fused", "streamed"):
            inputs = [states(width=WIDTH).requires_grad_()]
            if attributes is not None:
                inputs.append(attributes := attributes.detach().requires_grad_())
            out = scheduled(inputs[0], plan, attributes, runner=runner)
            results.append([out.detach(), *gradients(scheduled, out, inputs)])
        torch.testing.assert_close(results[0][0], by_hand(scheduled.conv, schedule, states(width=WIDTH)).detach())
        for fused, streamed in zip(*results, strict=True):
            torch.testing.assert_close(streamed, fused, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_plans_that_were_built(name):
    graph, scheduled = typed_graph(), Scheduled(convolution(name))
    graph = graph.select_edges((graph.src != graph.dst).nonzero().flatten())  # GCNConv keeps the last of several loops
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    attributes = attributes_for(scheduled, graph)
    if attributes is not None:
        with pytest.raises(ValueError, match="built holds no schedule"):
            scheduled(states(width=WIDTH), plan.build("fused"), attributes)
        return
    for runner in ("fused", "streamed"):
        ours, theirs = (scheduled(states(width=WIDTH), each, runner=runner) for each in (plan.build(runner), plan))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_virtual_nodes(name):
    graph, scheduled = typed_graph(), Scheduled(convolution(name))
    plan = gpnn.lower(graph, make_schedule("subgraph_memory", graph))
    attributes = attributes_for(scheduled, graph)
    fused, streamed = (scheduled(states(width=WIDTH), plan, attributes, runner=r) for r in ("fused", "streamed"))
    assert fused.shape == (10, WIDTH)
    torch.testing.assert_close(streamed, fused, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_chunks_change_nothing(name, monkeypatch):
    """Only convolutions that promise to be local are cut; the others' phases stay whole."""
    monkeypatch.setattr("gpnn.engine.lower_schedule._chunk_rows", lambda schedule: 2)
    graph, scheduled = typed_graph(), Scheduled(convolution(name), local=name in LOCAL)
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    attributes = attributes_for(scheduled, graph)
    fused, streamed = (scheduled(states(width=WIDTH), plan, attributes, runner=r) for r in ("fused", "streamed"))
    torch.testing.assert_close(streamed, fused, rtol=0, atol=1e-11)


def test_dropout_is_the_same_when_the_streamed_runner_recomputes():
    """With the masks fixed the map is linear in x, so that <gradient, x> is the output's own sum."""
    graph = typed_graph()
    scheduled = Scheduled(pyg.APPNP(K=1, alpha=0.0, dropout=0.5))
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    x = states(width=WIDTH).requires_grad_()
    torch.manual_seed(0)
    out = scheduled(x, plan, runner="streamed")
    out.sum().backward()
    torch.testing.assert_close((x.grad * x).sum(), out.sum())
    assert not scheduled(x, plan, runner="streamed").equal(out)


def test_an_untyped_graph_has_one_type():
    graph = multigraph(weighted=False, num_types=1)
    conv = pyg.RGCNConv(WIDTH, WIDTH, num_relations=1).double()
    ours = Scheduled(conv)(states(width=WIDTH), gpnn.lower(graph, synchronous(graph, 1)))
    whole = conv(states(width=WIDTH), torch.stack([graph.src, graph.dst]), torch.zeros(32, dtype=torch.int64))
    torch.testing.assert_close(ours, whole)


def test_widths_may_differ_only_where_one_phase_writes_all_nodes():
    graph, x = typed_graph(), states(width=WIDTH)
    wider = Scheduled(convolution("SAGEConv", width=6))
    assert wider(x, gpnn.lower(graph, synchronous(graph, 1))).shape == (10, 6)
    with pytest.raises(ValueError, match=r"as wide as it takes, 4\. Got 6"):
        wider(x, gpnn.lower(graph, make_schedule("receivers", graph, rounds=1)))
    with pytest.raises(ValueError, match=r"as wide as it takes, 4\. Got 6"):
        wider(x, gpnn.lower(graph, synchronous(graph, 1)), runner="streamed")


def test_collects_the_states_after_each_round():
    graph = typed_graph()
    scheduled = Scheduled(convolution("SAGEConv"))
    after = scheduled(states(width=WIDTH), gpnn.lower(graph, partitioned(graph, [0, 1] * 5, rounds=3)), collect=True)
    assert len(after) == 3


def test_refuses_what_a_schedule_cannot_call():
    graph = typed_graph()
    plan = gpnn.lower(graph, synchronous(graph, 1))
    with pytest.raises(ValueError, match="Got GCNConv with cached=True"):
        Scheduled(pyg.GCNConv(2, 2, cached=True))
    with pytest.raises(ValueError, match="Got AntiSymmetricConv with cached=True"):
        Scheduled(pyg.AntiSymmetricConv(2, phi=pyg.GCNConv(2, 2, cached=True)))
    with pytest.raises(ValueError, match="Got PointNetConv, which takes x, pos, edge_index"):
        Scheduled(pyg.GPSConv(4, pyg.PointNetConv()))
    with pytest.raises(ValueError, match="Got PointNetConv, which takes x, pos, edge_index"):
        Scheduled(pyg.PointNetConv())
    with pytest.raises(ValueError, match="Got Linear, which takes input"):
        Scheduled(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"must be a convolution of PyTorch Geometric. Got str"):
        Scheduled("GCNConv")
    with pytest.raises(ValueError, match="`edge_attr` must be None"):
        Scheduled(convolution("SAGEConv"))(states(width=WIDTH), plan, edge_attributes(32))
    with pytest.raises(ValueError, match=r"a row for each of the 32 edges. Got 31"):
        Scheduled(convolution("GATv2Conv"))(states(width=WIDTH), plan, edge_attributes(31))
    typed = pyg.AntiSymmetricConv(WIDTH, phi=pyg.RGCNConv(WIDTH, WIDTH, num_relations=2)).double()
    with pytest.raises(ValueError, match=r"all 3 edge types of the plan. Got num_relations=2"):
        Scheduled(typed)(states(width=WIDTH), plan)
    with pytest.raises(ValueError, match=r"all 3 edge types of the plan. Got num_relations=2"):
        Scheduled(pyg.RGCNConv(WIDTH, WIDTH, num_relations=2).double())(states(width=WIDTH), plan)


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> object:
        return x, edge_index


class Counts(Pair):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> object:
        return edge_index[1].bincount(minlength=len(x))


@pytest.mark.parametrize(("conv", "got"), [(Pair(), "tuple of Pair"), (Counts(), r"shape \[10\] of Counts")])
def test_refuses_what_is_no_state(conv, got):
    graph = typed_graph()
    with pytest.raises(ValueError, match=rf"must return states \[N, d\], floating point\. Got {got}\."):
        Scheduled(conv)(states(width=WIDTH), gpnn.lower(graph, synchronous(graph, 1)))
