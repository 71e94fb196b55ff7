"""A loss of few rows needs few rows of each step: what they reach gives the gradients of all."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

import gpnn
from gpnn.engine import Plan, Streamed
from gpnn.engine.reach import Reach, follow, reach_of, within
from gpnn.engine.recompute import Recomputation
from gpnn.nn import GPNN, MaskKey

NUM_NODES, WIDTH = 240, 8
RUNNERS = (Streamed(), Streamed(features="cpu"), Streamed(device="cpu", features="cpu", near=1))


@pytest.fixture(autouse=True)
def _parts_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.recompute.PART_DEVICES", ("cpu",))
    monkeypatch.setattr("gpnn.engine.rows.CPU_ROWS", 3)


def plan_of(name: str, rounds: int, *, stored: bool = False, directed: bool = False, **lowering: Any) -> Plan:
    """A ring with chords to near nodes, so that few hops reach few nodes, in five subgraphs."""
    random = torch.Generator().manual_seed(0)
    a = torch.arange(NUM_NODES).repeat(2)
    b = (a + torch.randint(1, 6, a.shape, generator=random)) % NUM_NODES
    src, dst = (a, b) if directed else (torch.cat([a, b]), torch.cat([b, a]))
    graph = gpnn.Graph(src, dst, NUM_NODES)
    if stored:
        ptr, col, _ = graph.in_edges(with_edge=False)
        graph = gpnn.Graph.from_csr(torch.from_numpy(ptr), torch.from_numpy(col), symmetric=not directed)
    label = torch.arange(NUM_NODES) * 5 // NUM_NODES
    label[torch.randint(NUM_NODES, (30,), generator=random)] = 2  # some nodes cross
    part = gpnn.Partition(label, 5)
    schedules = {
        "synchronous": lambda: gpnn.schedule.synchronous(graph, rounds),
        "partitioned": lambda: gpnn.schedule.partitioned(graph, part, rounds),
        "receivers": lambda: gpnn.schedule.partitioned(graph, part, rounds, update="receivers"),
        "held_cut": lambda: gpnn.schedule.held_cut(graph, part, rounds, intra=1),
    }
    return gpnn.lower(schedules[name](), **lowering)


def nodes(count: int = 4) -> Tensor:
    return torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(2))[:count]


def gradients(model: GPNN, loss: Tensor | None) -> list[Tensor | None]:
    assert loss is not None
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


def check(plan: Plan, monkeypatch: pytest.MonkeyPatch, rows: Tensor | None = None, **options: Any) -> int:
    """Compare with autograd; the number of passes that went through the reach."""
    from gpnn.engine import streamed

    taken, through = [], streamed.through_reach

    def counted(*arguments: Any) -> Any:
        taken.append(1)
        return through(*arguments)

    monkeypatch.setattr(streamed, "through_reach", counted)
    x, rows = (
        torch.randn(NUM_NODES, WIDTH, generator=torch.Generator().manual_seed(1)),
        nodes() if rows is None else rows,
    )
    factor = torch.linspace(-1, 1, len(rows) * 3).view(len(rows), 3)
    options = {"concat": "none", "input_dropout": 0.2, **options}
    model = GPNN(WIDTH, WIDTH, 3, num_rounds=plan.num_rounds, **options)
    expected = gradients(model, (model(x, plan, key=MaskKey(3, 1), rows=rows) * factor).sum())
    for runner in RUNNERS:
        model = GPNN(WIDTH, WIDTH, 3, num_rounds=plan.num_rounds, runner=runner, **options)
        for _ in range(2):
            model.zero_grad()
            loss = model.loss(x, plan, rows, lambda y, at: (y * factor[at]).sum(), MaskKey(3, 1))
            found = gradients(model, loss)
        for ours, theirs in zip(found, expected, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None and theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    return len(taken)


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("schedule", ["synchronous", "partitioned", "receivers", "held_cut"])
@pytest.mark.parametrize("stored", [False, True])
def test_gradients_are_those_of_all_rows(
    schedule: str, rounds: int, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(schedule, rounds, stored=stored)
    assert check(plan, monkeypatch) == 2 * len(RUNNERS)


@pytest.mark.parametrize(("whole", "nearly"), [(0.0, 0.0), (0.0, 2.0), (2.0, 2.0), (0.3, 0.6)])
@pytest.mark.parametrize("schedule", ["partitioned", "held_cut"])
def test_blocks_whole_and_in_parts(schedule: str, whole: float, nearly: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("WHOLE", whole), ("NEARLY", nearly), ("WORTH", 9.0), ("MOST_MADE", 99)):
        monkeypatch.setattr(f"gpnn.engine.reach.{name}", value)
    monkeypatch.setattr("gpnn.engine.reach.within", lambda reach, most: reach)
    assert check(plan_of(schedule, 3), monkeypatch, nodes(40)) == 2 * len(RUNNERS)


@pytest.mark.parametrize("schedule", ["partitioned", "synchronous", "held_cut"])
def test_parts_that_read_many_rows_are_differentiated_by_ranges(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.reach.MANY", 5)
    assert check(plan_of(schedule, 3), monkeypatch) == 2 * len(RUNNERS)


@pytest.mark.parametrize("rule", ["phase", "symmetric_split"])
def test_directed_edges_weights_and_other_cells(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("partitioned", 2, directed=True, normalization=rule, self_loops=True)
    assert check(plan, monkeypatch) == 2 * len(RUNNERS)
    assert check(plan, monkeypatch, cell="lstm", message="linear") == 2 * len(RUNNERS)
    assert check(plan, monkeypatch, sharing="round") == 2 * len(RUNNERS)


def test_a_cell_that_takes_no_parts_after_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, rows = plan_of("held_cut", 3), nodes()
    assert check(plan, monkeypatch, rows) == 2 * len(RUNNERS)
    assert check(plan, monkeypatch, rows, update_dropout=0.3) == 0


def recomputation(plan: Plan) -> Recomputation:
    return Recomputation(GPNN(WIDTH, WIDTH, 3).cell, plan, None)


@pytest.mark.parametrize("schedule", ["partitioned", "receivers"])
def test_what_a_second_phase_reads_is_computed_again(schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.reach.WORTH", 9.0)
    plan, dropped = plan_of(schedule, 3), []

    def tight(reach: Reach, most: int) -> Reach | None:
        found = within(reach, reach.num_held - 1)
        dropped.append(found is not None and sum(not stage.kept for stage in found.stages))
        return found or reach

    monkeypatch.setattr("gpnn.engine.reach.within", tight)
    assert check(plan, monkeypatch, nodes(30)) == 2 * len(RUNNERS)
    assert len(dropped) == 1  # found once
    if schedule == "partitioned":
        assert dropped[0]


def test_rows_that_pass_a_phase_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.reach.WORTH", 9.0)
    plan, rows = plan_of("partitioned", 3), nodes(60)
    found = follow(recomputation(plan), plan.sorted_rows(rows)[0].rows).stages
    assert [stage.in_place for stage in found] == [False, True, False, False, False, False]
    assert check(plan, monkeypatch, rows) == 2 * len(RUNNERS)


def test_few_rows_are_computed_before_the_last_step() -> None:
    plan, (row,) = plan_of("synchronous", 3), nodes(1).tolist()
    adjacency = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.bool)
    graph = plan.schedule.graph
    adjacency[graph.dst, graph.src] = True
    reach, needed = follow(recomputation(plan), torch.tensor([row])), torch.zeros(NUM_NODES, dtype=torch.bool)
    needed[row] = True
    for stage in reversed(reach.stages):
        assert stage.num_rows == stage.num_computed == int(needed.sum())
        needed = needed | adjacency[needed].any(0)
    assert reach.num_held < 2 * NUM_NODES


def test_where_it_does_not_pay() -> None:
    plan = plan_of("synchronous", 3)
    assert reach_of(recomputation(plan), torch.arange(NUM_NODES)) is None  # all rows
    assert reach_of(recomputation(plan), torch.arange(0, NUM_NODES, 2)) is None  # which reach all
    assert reach_of(recomputation(plan_of("synchronous", 1)), torch.arange(3)) is None  # the last step does it


def test_a_gpu_without_room_takes_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpnn.engine.streamed.fitting", lambda reach, source: None)
    assert check(plan_of("partitioned", 3), monkeypatch) == 0


def test_no_more_is_held_than_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of what torch allocates, against the rows that are held and what a block takes."""
    monkeypatch.setattr("gpnn.engine.reach.within", lambda reach, most: within(reach, reach.num_held - 1) or reach)
    size, random = 1200, torch.Generator().manual_seed(0)
    a = torch.arange(size).repeat(2)
    b = (a + torch.randint(1, 6, a.shape, generator=random)) % size
    graph = gpnn.Graph(torch.cat([a, b]), torch.cat([b, a]), size)
    plan = gpnn.lower(gpnn.schedule.partitioned(graph, torch.arange(size) // 30, rounds=3))
    x, rows = torch.randn(size, WIDTH), torch.randperm(size, generator=random)[:200]
    model = GPNN(WIDTH, WIDTH, 3, concat="none", runner=Streamed())

    def once() -> None:
        assert model.loss(x, plan, rows, lambda y, at: y.square().sum()) is not None

    once()
    reach = reach_of(recomputation(plan), plan.sorted_rows(rows)[0].rows)
    assert reach is not None
    assert not all(stage.kept for stage in reach.stages)
    block = max(part.block.num_inputs for stage in reach.stages for part in stage.parts)
    assert reach.num_held + 3 * block < reach.num_held + size  # a state too much would be seen
    assert peak_bytes(once) <= 4 * WIDTH * (reach.num_held + 3 * block)


def peak_bytes(work: Callable[[], None]) -> int:
    """The most bytes that torch holds on the CPU at one time beyond those before."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        work()
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
