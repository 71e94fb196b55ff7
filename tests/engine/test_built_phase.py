"""Plans that were built for a runner: the same numbers, and nothing held of schedule and graph."""

import gc
import weakref

import pytest
import torch

import gpnn
from gpnn.engine import Streamed, propagate
from gpnn.engine.memory import lowering_bytes, plan_bytes
from tests.oracle.engine_cases import SCHEDULES, gradients, make_cell, make_schedule, multigraph, states
from tests.oracle.small_graphs import chain


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
    assert plan_bytes(built) == lowering_bytes(built) == 0  # they are there
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
