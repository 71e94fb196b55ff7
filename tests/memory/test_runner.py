"""Bytes of a plan and its runners, before anything of it is built."""

from dataclasses import replace

import pytest
import torch

import gpnn
from gpnn.engine import Plan, Streamed
from gpnn.memory.runner import StateBytes, lowering_bytes, plan_bytes, source_bytes, stored_bytes
from tests.oracle.engine_cases import make_schedule, multigraph


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_a_built_plan_takes_nothing_more(runner):
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    assert min(plan_bytes(plan), lowering_bytes(plan)) > 0
    built = plan.build(runner)
    assert plan_bytes(built) == lowering_bytes(built) == 0  # its arrays are there


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
    work = lambda name: source_bytes(on_a_gpu(plan_of(name, 1)), SIZES, Streamed(), FEATURES).work  # noqa: E731
    gradient, block = 40 * STATE, 10 * 4 * STATE
    halo, inputs = (
        8 * STATE,
        2 * (10 + 2) * STATE,
    )  # two rows a block; a block's, and their gradient
    assert work("held_cut") == gradient + block + halo + inputs
    assert work("partitioned") == gradient + block + 40 * STATE  # the inside phase is done again in a copy


def test_features_are_kept_no_wider_than_states() -> None:
    x = torch.zeros(5, 3)
    assert (stored_bytes(x, 2), stored_bytes(x, 4), stored_bytes(x.half(), 4)) == (30, 60, 30)
