"""A phase whole, in its own blocks, and in chunks of receivers."""

import pytest
import torch

import gpnn
from gpnn.engine import Block, Plan
from tests.oracle.engine_cases import SCHEDULES, make_schedule, multigraph

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
        assert [edge for edge, *_ in whole] == sorted(phase.edges.tolist())
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
