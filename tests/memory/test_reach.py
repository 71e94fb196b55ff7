"""What a loss will reach, counted before anything is built, is what it then reaches."""

from typing import Any

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.engine import Plan
from gpnn.engine.reach import Reach, follow
from gpnn.engine.recompute import Recomputation, round_steps
from gpnn.engine.rows import RowsByBlock
from gpnn.memory.reach import count_parts, count_reach

NUM_NODES, PARTS = 400, 5


@pytest.fixture(autouse=True)
def _parts_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.lower_schedule.CHUNK_ROWS", 70)
    monkeypatch.setattr("gpnn.memory.reach.worthwhile", lambda found, plan, num_rows: found)


def skewed(*, directed: bool) -> gpnn.Graph:
    """A graph in CSR form with a few hubs, whose last quarter of the nodes has no edge."""
    random = torch.Generator().manual_seed(0)
    a, b = ((torch.rand(700, generator=random) ** 3 * NUM_NODES * 3 / 4).long() for _ in range(2))
    src, dst = (a, b) if directed else (torch.cat([a, b]), torch.cat([b, a]))
    ptr, col, _ = gpnn.Graph(src, dst, NUM_NODES).in_edges(with_edge=False)
    return gpnn.Graph.from_csr(torch.from_numpy(ptr), torch.from_numpy(col), symmetric=not directed)


def plan_of(name: str, *, directed: bool) -> Plan:
    graph, random = skewed(directed=directed), torch.Generator().manual_seed(1)
    part = gpnn.Partition(torch.randint(PARTS, (NUM_NODES,), generator=random), PARTS)
    schedules = {
        "synchronous": lambda: gpnn.schedule.synchronous(graph, 3),
        "partitioned": lambda: gpnn.schedule.partitioned(graph, part, 2),
        "receivers": lambda: gpnn.schedule.partitioned(graph, part, 2, update="receivers"),
        "held_cut": lambda: gpnn.schedule.held_cut(graph, part, 3, intra=1),
    }
    return gpnn.lower(schedules[name]())


def counts(reach: Reach) -> list[list[object]]:
    names = ("num_before", "num_read", "num_passed", "num_rows", "num_computed", "num_inputs", "apart", "in_place")
    return [[getattr(stage, name) for name in names] for stage in reach.stages]


def some_nodes(count: int) -> Tensor:
    return torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(2))[:count]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["synchronous", "partitioned", "receivers", "held_cut"])
@pytest.mark.parametrize("count", [2, 40])
def test_counts_are_those_of_the_reach(name: str, directed: bool, count: int) -> None:
    plan = plan_of(name, directed=directed)
    rows = plan.rows_of(some_nodes(count)).sort().values
    counted = count_reach(plan, rows)
    assert counted is not None
    found = follow(Recomputation(gpnn.nn.GPNN(3, 8, 2).cell, plan, None), rows)
    assert counts(counted.reach)[1:] == counts(found)[1:]
    if not directed:  # else the halo of a block that is taken whole is a bound
        assert counts(counted.reach) == counts(found)
    assert counted.reach.num_held == found.num_held


def test_sizes_are_those_of_the_parts() -> None:
    plan = plan_of("held_cut", directed=False)
    rows = plan.rows_of(some_nodes(4)).sort().values
    counted = count_reach(plan, rows)
    assert counted is not None
    found = follow(Recomputation(gpnn.nn.GPNN(3, 8, 2).cell, plan, None), rows)
    for sizes, stage in zip(counted.parts, found.stages):
        assert [size[:2] for size in sizes] == [(part.block.num_rows, part.block.num_inputs) for part in stage.parts]
    assert counted.num_bytes > 0


def test_a_list_of_edges_is_not_counted() -> None:
    graph = gpnn.Graph([0, 1, 2], [1, 2, 0], num_nodes=3)
    assert count_reach(gpnn.lower(gpnn.schedule.synchronous(graph, 2)), torch.tensor([0])) is None


def test_no_more_is_kept_than_there_is_room_for() -> None:
    plan = plan_of("partitioned", directed=False)
    counted = count_reach(plan, plan.rows_of(some_nodes(40)).sort().values)
    assert counted is not None
    assert counted.within(counted.reach.num_held) == counted
    assert counted.within(1) is None


@pytest.mark.parametrize("part_edges", [1.0, 0.2, 0.0])
@pytest.mark.parametrize("count", [2, 10, NUM_NODES])
def test_parts_are_those_that_blocks_keep(count: int, part_edges: float, monkeypatch: Any) -> None:
    """Of all steps of a held phase: parts of parts as far as they have few rows, and few edges."""
    monkeypatch.setattr("gpnn.engine.recompute.FEW", 2)
    graph, random = skewed(directed=False), torch.Generator().manual_seed(1)
    part = gpnn.Partition(torch.randint(2, (NUM_NODES,), generator=random), 2)
    plan = gpnn.lower(gpnn.schedule.held_cut(graph, part, 1, intra=3))
    rows = plan.rows_of(some_nodes(count)).sort().values
    recomputation = Recomputation(gpnn.nn.GPNN(3, 8, 2).cell, plan, None, part_edges)
    ((phase, steps),) = round_steps(plan.rounds[0], 0)
    by_block, expected, whole, largest = RowsByBlock(rows), 0, 0, [(0, 0, 0)] * 3
    for number, block in enumerate(phase.chunks):
        _, wanted = by_block.of(block.rows)
        recomputation.advance(block, number, torch.randn(block.num_inputs, 8), steps, None, wanted)
        taken_whole = 3
        while wanted is not None and len(wanted):
            taken = block._parts.get(wanted)
            if taken is None:
                break
            made, wanted = taken.block, taken.own
            expected += 8 * made.num_entries + 12 * (made.num_inputs + made.num_rows)
            size, position = (made.num_rows, made.num_inputs, made.num_entries), 3 - taken_whole
            largest[position] = tuple(map(max, largest[position], size))
            taken_whole -= 1
        whole = max(whole, taken_whole)
    parted = tuple(size for size in largest if size[0])
    assert count_parts(plan, rows, part_edges) == (expected, whole, parted)
    assert (expected == 0) == (count == NUM_NODES)
