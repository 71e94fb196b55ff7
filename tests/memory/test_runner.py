"""Bytes of a plan and its runners, before anything of it is built."""

import pytest

import gpnn
from gpnn.memory.runner import lowering_bytes, plan_bytes
from tests.oracle.engine_cases import make_schedule, multigraph


@pytest.mark.parametrize("runner", ["fused", "streamed"])
def test_a_built_plan_takes_nothing_more(runner):
    graph = multigraph()
    plan = gpnn.lower(graph, make_schedule("partitioned", graph))
    assert min(plan_bytes(plan), lowering_bytes(plan)) > 0
    built = plan.build(runner)
    assert plan_bytes(built) == lowering_bytes(built) == 0  # its arrays are there
