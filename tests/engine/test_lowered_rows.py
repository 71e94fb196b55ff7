"""A graph over rows is partitioned, scheduled and run like the edge list of its rows, without making that list."""

import numpy as np
import pytest
import torch

import gpnn
from gpnn import Graph
from gpnn.engine import LoweredRows, propagate
from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.nn.cell import Cell, build_cell
from gpnn.nn.message import IdentityMessage
from gpnn.nn.update import UPDATES
from gpnn.partition.neighbours import neighbours

NUM_NODES = 60


def pair(*, symmetric: bool, seed: int = 0, weighted: bool = False, num_types: int = 1) -> tuple[Graph, Graph]:
    """The same multigraph with loops and isolated nodes: an edge list by receiver and sender, and rows.

    An edge and its reverse have the same weight and type.
    """
    rng = np.random.default_rng(seed)
    src, dst = torch.from_numpy(rng.integers(0, NUM_NODES - 3, (2, 150)))
    if symmetric:
        proper = src != dst
        src, dst = torch.cat([src, dst[proper]]), torch.cat([dst, src[proper]])
    order = torch.from_numpy(np.lexsort((src, dst)))
    src, dst = src[order], dst[order]
    weight = torch.sin(1.0 + src * dst + src + dst).double() if weighted else None  # some are negative
    kind = (src + dst) % num_types if num_types > 1 else None
    listed = Graph(src, dst, NUM_NODES, kind, weight)
    ptr, col, _ = listed.in_edges(with_edge=False)
    back = listed.out_edges(with_edge=False)
    out = None if symmetric else (torch.from_numpy(back.ptr), torch.from_numpy(back.index))
    arrays = torch.from_numpy(ptr), torch.from_numpy(col)
    return listed, Graph.from_csr(*arrays, symmetric=symmetric, out=out, edge_type=kind, edge_weight=weight)


SCHEDULES = {
    "synchronous": lambda graph, part: gpnn.schedule.synchronous(graph, 2),
    "partitioned": lambda graph, part: gpnn.schedule.partitioned(graph, part, 2, intra=2, cut=2),
    "receivers": lambda graph, part: gpnn.schedule.partitioned(graph, part, 2, intra=2, cut=2, update="receivers"),
    "held_cut": lambda graph, part: gpnn.schedule.held_cut(graph, part, 2, intra=3),
    "held_once": lambda graph, part: gpnn.schedule.held_cut(graph, part, 2, intra=1),
}


def make_cell(channels: int, update: str) -> Cell:
    return Cell(IdentityMessage(), UPDATES[update](channels, torch.Generator().manual_seed(0)))


def run(plan, cell, state, runner):
    state = state.clone().requires_grad_()
    out = propagate(cell, plan, state, runner=runner)
    (out * torch.linspace(0, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), state.grad


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rule", ["phase", "graph"])
@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_rows_run_like_their_edge_list(symmetric, schedule, rule, runner):
    listed, rows = pair(symmetric=symmetric)
    labels = torch.arange(NUM_NODES) * 7 % 4  # so that the plan has an order of its own
    made = [SCHEDULES[schedule](graph, labels) for graph in (listed, rows)]
    assert repr(made[1]) == repr(made[0])
    wanted, found = (gpnn.lower(each, normalization=rule) for each in made)
    assert all(isinstance(phase, LoweredRows) for phase in found.distinct_phases())
    assert (found.num_messages, found.num_updates) == (wanted.num_messages, wanted.num_updates)
    assert found.edge_digest == wanted.edge_digest
    for here, there in zip(found.distinct_phases(), wanted.distinct_phases()):
        for name in ("num_rows", "num_edges", "num_held", "num_halo", "independent", "sends_all", "kind"):
            assert getattr(here, name) == getattr(there, name), name
    cell = make_cell(6, "gru").double()
    state = torch.randn(NUM_NODES, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for here, there in zip(run(found, cell, state, runner), run(wanted, cell, state, runner)):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-12)
    assert "src" not in vars(rows)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("method", ["flood_fill", "refined", "clustered"])
def test_rows_are_partitioned_like_their_edge_list(symmetric, method):
    listed, rows = pair(symmetric=symmetric, seed=2)
    wanted, found = (gpnn.partition_graph(graph, 4, method, seed=1) for graph in (listed, rows))
    assert "src" not in vars(rows)
    assert torch.equal(found.labels, wanted.labels)
    assert found.quality(rows) == found.quality(listed)


@pytest.mark.parametrize("symmetric", [False, True])
def test_neighbours_of_rows(symmetric):
    wanted, found = map(neighbours, pair(symmetric=symmetric, seed=3))
    assert all(np.array_equal(here, there) for here, there in zip(found, wanted))


@pytest.mark.thorough
@pytest.mark.parametrize("rule", NORMALIZATIONS)
@pytest.mark.parametrize("kind", ["plain", "loops", "weighted", "typed", "all"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_rule_weighs_messages_of_every_kind_like_the_edge_list(rule, kind, symmetric):
    check_messages(rule, kind, symmetric)


@pytest.mark.parametrize(("rule", "kind"), [("symmetric_phase", "all"), ("split", "typed"), ("graph", "loops")])
def test_messages_with_weights_types_and_loops_are_those_of_the_edge_list(rule, kind):
    check_messages(rule, kind, symmetric=kind == "typed")


def check_messages(rule, kind, symmetric):
    """Results and gradients under every schedule and runner, without making the edge list."""
    own = {"weighted": kind in ("weighted", "all"), "num_types": 3 if kind in ("typed", "all") else 1}
    listed, rows = pair(symmetric=symmetric, **own)
    labels, loops = torch.arange(NUM_NODES) * 7 % 4, kind in ("loops", "all")
    cell = build_cell("linear", "gru", "mean", {}, 4, listed.num_edge_types, torch.Generator().manual_seed(0)).double()
    state = torch.randn(NUM_NODES, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for make in SCHEDULES.values():
        plans = [gpnn.lower(make(graph, labels), normalization=rule, self_loops=loops) for graph in (listed, rows)]
        assert plans[0].num_edge_types == plans[1].num_edge_types
        for runner in ("fused", "streamed"):
            wanted, found = (run(plan, cell, state, runner) for plan in plans)
            for here, there in zip(found, wanted):
                torch.testing.assert_close(here, there, rtol=1e-11, atol=1e-11)
        built = plans[1].build("streamed")
        torch.testing.assert_close(run(built, cell, state, "streamed")[0], found[0], rtol=0, atol=0)
    assert "src" not in vars(rows)


def test_virtual_nodes_and_other_schedules_over_rows():
    listed, rows = pair(symmetric=True)
    labels = torch.arange(NUM_NODES) % 3
    for make in (
        lambda graph: gpnn.schedule.partitioned(graph, labels, 2, virtual="subgraph"),
        lambda graph: gpnn.schedule.random_edges(graph, 2, seed=1),
        lambda graph: gpnn.schedule.sequential(graph, 1),
    ):
        assert repr(make(rows)) == repr(make(listed))
    reach = [gpnn.schedule.broadcast(graph, gpnn.schedule.partitioned(graph, labels, 9)) for graph in (listed, rows)]
    assert reach[0].num_messages == reach[1].num_messages


def test_a_synchronous_schedule_over_symmetric_rows_copies_nothing():
    _, rows = pair(symmetric=True)
    (phase,) = gpnn.lower(gpnn.schedule.synchronous(rows, 1)).rounds[0]
    operator = phase.whole.operators[0]
    assert operator.col.data_ptr() == operator.t_row.data_ptr() == rows.rows.col.data_ptr()
    assert operator.ptr.data_ptr() == rows.rows.ptr.data_ptr()
