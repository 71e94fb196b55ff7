"""A phase in its forms, and plans built for one runner: the same numbers, no schedule and graph held."""

import gc
import weakref

import numpy as np
import pytest
import torch

import gpnn
from gpnn import Graph
from gpnn.engine import Block, LoweredRows, Plan, Streamed, propagate, row_blocks
from gpnn.engine.normalize import NORMALIZATIONS
from gpnn.nn.cell import Cell, IdentityMessage, build_cell
from gpnn.nn.update import UPDATES
from gpnn.partition.neighbours import neighbours
from tests.oracle.engine_cases import SCHEDULES, gradients, make_cell, make_schedule, multigraph, states
from tests.oracle.parameters import rest_thorough
from tests.oracle.small_graphs import chain

Edge = tuple[int, int, int, float]


def received(plan: Plan, block: Block) -> list[Edge]:
    """(edge, sender, receiver, weight) of a block in the user's ids."""
    order = torch.arange(plan.schedule.graph.num_nodes) if plan.order is None else plan.order
    rows = torch.arange(len(order))[block.inputs]
    sender, receiver = order[rows[block.edge_index]].tolist()
    weight = torch.cat([operator.weight for operator in block.operators])[torch.cat(block.edges).argsort()].tolist()
    return list(zip(block.edge_id.tolist(), sender, receiver, weight, strict=True))


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_form_sends_the_phases_messages(name, small_chunks):
    schedule = make_schedule(name, graph := multigraph())
    plan = gpnn.lower(graph, schedule)
    full = schedule.graph
    for phase, lowered in zip(schedule.rounds[0], plan.rounds[0], strict=True):
        assert (lowered.kind, lowered.repeat, lowered.num_rows) == (phase.kind, phase.repeat, len(phase.nodes))
        whole = sorted(received(plan, lowered.whole))
        held = [] if phase.held is None else phase.held.tolist()
        assert [edge for edge, *_ in whole] == sorted(phase.edges.tolist() + held)
        assert all((full.src[edge], full.dst[edge]) == (u, v) for edge, u, v, _ in whole)
        for pieces in (lowered.blocks, lowered.chunks):
            assert sorted(edge for block in pieces for edge in received(plan, block)) == whole
            rows = torch.cat([torch.arange(full.num_nodes)[block.rows] for block in pieces])
            assert rows.equal(lowered.row_index)


def test_blocks_know_their_edges():
    graph = multigraph()
    block = gpnn.lower(graph, gpnn.schedule.synchronous(graph)).rounds[0][0].whole
    assert block.edge_index.equal(torch.stack([graph.src, graph.dst]))
    assert block.edge_type.equal(graph.edge_type)
    assert block.edge_weight.equal(graph.edge_weight)
    plain = multigraph(weighted=False, num_types=1)
    block = gpnn.lower(plain, gpnn.schedule.synchronous(plain)).rounds[0][0].whole
    assert block.edge_weight is None
    assert block.edge_type.unique().tolist() == [0]


def test_blocks_do_not_write_what_others_read(small_chunks):
    plan = gpnn.lower(graph := multigraph(), make_schedule("subgraph_memory", graph))
    for phase in plan.rounds[0]:
        if phase.phase.edge_ptr is None:
            continue
        everything = torch.arange(plan.schedule.graph.num_nodes)
        written = [set(everything[block.rows].tolist()) for block in phase.blocks]
        read = [set(everything[block.inputs].tolist()) for block in phase.blocks]
        for number, rows in enumerate(read):
            assert not rows & set().union(*(w for other, w in enumerate(written) if other != number))


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("weighted", rest_thorough([True, False], [True]))
@pytest.mark.parametrize("name", SCHEDULES)
def test_numbers_are_those_of_the_plan(name, weighted, runner, small_chunks):
    graph = multigraph(weighted=weighted, num_types=3 if weighted else 1)
    plan = gpnn.lower(graph, make_schedule(name, graph))
    built = plan.build(runner)
    for aggregate in ("mean", "max"):
        cell = make_cell("gru", "linear", aggregate)
        results = []
        for each in (plan, built):
            state = states().requires_grad_()
            out = propagate(cell, each, state, runner=runner, collect=True)
            results.append([*(rows.detach() for rows in out), *gradients(cell, out, [state])])
        for ours, theirs in zip(*results, strict=True):
            assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    for count in ("num_nodes", "num_virtual", "num_rounds", "num_messages", "num_updates", "num_edge_types"):
        assert getattr(built, count) == getattr(plan, count)
    assert all(a is b for a, b in zip(built.rounds[0], built.rounds[-1])) == (plan.rounds[0][0] is plan.rounds[-1][0])


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_holds_neither_graph_nor_schedule(runner):
    graph = multigraph()
    schedule = make_schedule("partitioned", graph)
    held = [weakref.ref(schedule), weakref.ref(graph.src), weakref.ref(schedule.rounds[0][0].edges)]
    built = gpnn.lower(graph, schedule).build(runner)
    del graph, schedule
    gc.collect()
    assert [each() for each in held] == [None] * 3
    assert propagate(make_cell(), built, states(), runner=runner).shape == (10, 3)
    assert built.build("streamed").rounds == built.rounds


def test_the_streamed_runner_takes_phases_whole():
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("subgraph_memory", graph))
    cell, built = make_cell(), plan.build("fused")
    torch.testing.assert_close(
        propagate(cell, built, states(), runner=Streamed()), propagate(cell, plan, states(), runner="fused")
    )


def test_a_phase_that_writes_nothing():
    graph = chain(3)
    nobody = torch.empty(0, dtype=torch.int64)
    phase = gpnn.schedule.Phase(nobody, nobody, edge_ptr=torch.tensor([0, 0]), node_ptr=torch.tensor([0, 0]))
    built = gpnn.lower(graph, gpnn.schedule.Schedule(graph, ((phase,),))).build("streamed")
    assert propagate(make_cell(), built, states(3), runner="streamed").equal(states(3))


def test_what_was_let_go_is_named(small_chunks):
    graph = multigraph()
    built = gpnn.lower(graph, make_schedule("partitioned", graph)).build("streamed")
    with pytest.raises(ValueError, match=r"built holds no schedule\. Ask the plan that `lower` gave"):
        _ = built.schedule
    with pytest.raises(ValueError, match="built holds no edge ids"):
        _ = built.rounds[0][0].blocks[0].edge_id
    with pytest.raises(ValueError, match=r"takes a phase whole\. Got a plan built in \d+ blocks"):
        propagate(make_cell(), built, states(), runner="fused")
    cut = built.rounds[0][1]
    assert len(cut.chunks) > 1
    with pytest.raises(ValueError, match=r"not `local` takes a phase's own blocks\. Got a plan built in chunks"):
        _ = cut.blocks
    with pytest.raises(ValueError, match=r"`runner` must be one of fused, streamed\. Got 'sharded'"):
        built.build("sharded")
    assert repr(built) == "Plan(10 nodes, 2 rounds, device=cpu, normalization='phase')"


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


def identity_cell(channels: int, update: str) -> Cell:
    return Cell(IdentityMessage(), UPDATES[update](channels, torch.Generator().manual_seed(0)))


def run(plan, cell, state, runner):
    state = state.clone().requires_grad_()
    out = propagate(cell, plan, state, runner=runner)
    (out * torch.linspace(0, 1, out.numel(), dtype=out.dtype, device=out.device).view_as(out)).sum().backward()
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
    cell = identity_cell(6, "gru").double()
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
@pytest.mark.usefixtures("_form")
def test_every_rule_weighs_messages_of_every_kind_like_the_edge_list(rule, kind, symmetric):
    check_messages(rule, kind, symmetric)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [("symmetric_phase", "all"), ("split", "typed"), ("graph", "loops"), ("symmetric_split", "loops")],
)
@pytest.mark.usefixtures("_form")
def test_messages_with_weights_types_and_loops_are_those_of_the_edge_list(rule, kind):
    check_messages(rule, kind, symmetric=kind in ("typed", "loops"))


@pytest.fixture(params=["entries", "factors"])
def _form(request, monkeypatch):
    """Symmetric rules as a CPU stores them, a weight per entry, and as a GPU does, as factors of both ends."""
    if request.param == "factors":
        monkeypatch.setattr(row_blocks, "weighs_entries", lambda rule, device: False)


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
