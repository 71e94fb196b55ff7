"""Bytes of a plan and its runners, before anything of it is built."""

from dataclasses import replace

import pytest
import torch

import gpnn
from gpnn.engine import Plan, Streamed
from gpnn.memory.reach import CountedParts, PartSize
from gpnn.memory.runner import (
    StateBytes,
    lowering_bytes,
    plan_bytes,
    source_bytes,
    stored_bytes,
)
from tests.memory.test_reach import skewed
from tests.oracle.engine_cases import make_schedule, multigraph


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_a_built_plan_takes_nothing_more(runner):
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    assert min(plan_bytes(plan), lowering_bytes(plan)) > 0
    built = plan.build(runner)
    assert plan_bytes(built) == lowering_bytes(built) == 0  # its arrays are there


def array_bytes(plan: Plan) -> int:
    """Bytes of all arrays of a plan's blocks, each counted once."""
    found: dict[int, int] = {}

    def add(value: object) -> None:
        if isinstance(value, torch.Tensor):
            found[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        elif isinstance(value, tuple):
            for each in value:
                add(each)
        elif hasattr(value, "t_ptr"):
            add(tuple(vars(value).values()))

    for phase in plan.distinct_phases():
        for block in phase.chunks:
            add(tuple(vars(block).values()))
        add(tuple(phase.halo or ()))
    return sum(found.values())


@pytest.mark.parametrize("runner", ["fused", "streamed"])
@pytest.mark.parametrize("name", ["partitioned", "held_cut", "synchronous"])
def test_arrays_of_a_skewed_graph_are_foreseen(name: str, runner: str) -> None:
    graph, random = skewed(directed=False), torch.Generator().manual_seed(1)
    part = gpnn.Partition(torch.randint(4, (graph.num_nodes,), generator=random), 4)
    others = () if name == "synchronous" else (part,)
    plan = gpnn.lower(getattr(gpnn.schedule, name)(graph, *others, 2))
    foreseen = plan_bytes(plan, recomputes=runner == "streamed")
    assert foreseen == pytest.approx(array_bytes(plan.build(runner)), rel=0.3)  # a graph's own arrays count


STATE, FEATURES = 10.0, 1000.0
SIZES = StateBytes(STATE, 0.0, STATE, lambda rows: 0.0)  # nothing but states counts


def plan_of(name: str, rounds: int) -> Plan:
    ring = torch.arange(40)
    graph = gpnn.Graph(torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring]), 40)
    part = gpnn.Partition(ring // 10, 4)
    make = {"held_cut": lambda: gpnn.schedule.held_cut(graph, part, rounds, intra=1)}
    make["partitioned"] = lambda: gpnn.schedule.partitioned(graph, part, rounds)
    return gpnn.lower(make[name]())


def on_a_gpu(plan: Plan) -> Plan:
    """The same plan, as if its arrays were elsewhere: counts alone are asked for."""
    return replace(plan, device=torch.device("cuda"))


def test_one_round_keeps_no_state() -> None:
    found = source_bytes(plan_of("held_cut", 1), SIZES, Streamed(), FEATURES)
    assert found.kept == found.host == 0


def test_rounds_keep_a_state_each_where_they_are_stored() -> None:
    plan = on_a_gpu(plan_of("held_cut", 4))
    whole = 40 * STATE
    assert source_bytes(plan, SIZES, Streamed(), FEATURES).kept == 3 * whole
    host = source_bytes(plan, SIZES, Streamed(device="cpu", features="cpu"), FEATURES)
    assert (host.kept, host.host) == (whole, 2 * whole + FEATURES)  # the last is the working state itself
    near = source_bytes(plan, SIZES, Streamed(device="cpu", features="cpu", near=2), FEATURES)
    assert (near.kept, near.host) == (2 * whole, whole + FEATURES)


def test_features_that_come_from_the_host_take_room_while_they_are_used() -> None:
    plan = on_a_gpu(plan_of("held_cut", 1))
    there, here = (source_bytes(plan, SIZES, Streamed(features=each), FEATURES) for each in ("cpu", None))
    assert there.work == here.work + FEATURES
    assert (there.host, here.host) == (FEATURES, 0)


def test_what_goes_back_through_a_round() -> None:
    def work(name: str, read: float, made: float = 0.0, parts: CountedParts | None = None) -> float:
        plan = on_a_gpu(plan_of(name, 1))
        return source_bytes(plan, SIZES, Streamed(), FEATURES, read=read, made=made, parts=parts).work

    gradient, block, rows = 40 * STATE, 10 * 4 * STATE, 10 + 2  # two rows of a block are of others
    inputs = 2 * rows * STATE  # a block's, and their gradient
    assert work("held_cut", 100) == block + inputs + rows * 100  # a lone round makes the states that it reads
    assert work("held_cut", 100, 1000) == rows * 1000  # which are differentiated when the block is done
    parts = CountedParts(0.0, 0, (PartSize(3, 9, 6),))
    assert work("held_cut", 100, parts=parts) == (3 * rows + 10) * STATE + rows * 100  # two gradients of what is read
    assert work("partitioned", 100) == gradient + block + 40 * STATE  # the inside phase is done again in a copy


def test_what_blocks_of_the_last_round_receive_is_added_where_it_stands() -> None:
    plan = on_a_gpu(plan_of("held_cut", 2))
    once, twice = (source_bytes(plan, SIZES, Streamed(), FEATURES, at_once=each) for each in (True, False))
    assert twice.work == once.work + 8 * STATE  # two rows at each end of four blocks


def test_features_are_kept_no_wider_than_states() -> None:
    x = torch.zeros(5, 3)
    assert (stored_bytes(x, 2), stored_bytes(x, 4), stored_bytes(x.half(), 4)) == (30, 60, 30)
