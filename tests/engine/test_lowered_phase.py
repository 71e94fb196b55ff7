"""A phase in its forms, and plans built for one runner: the same numbers, no schedule and graph held."""

import gc
import weakref

import pytest
import torch

import gpnn
from gpnn.engine import Block, Plan, Streamed, propagate
from tests.oracle.engine_cases import SCHEDULES, gradients, make_cell, make_schedule, multigraph, states
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
@pytest.mark.parametrize("weighted", [True, False])
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
