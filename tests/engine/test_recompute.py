"""The steps of a round as runners take them."""

import pytest
import torch

import gpnn
from gpnn.engine import lower_csr
from gpnn.engine.recompute import round_steps
from tests.oracle.engine_cases import SCHEDULES, make_schedule, multigraph


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("built", [False, True])
def test_steps_tell_what_the_schedule_says_of_their_phase(name, built):
    graph = multigraph()
    plan = gpnn.lower(make_schedule(name, graph))
    plan, phases = plan.build() if built else plan, plan.schedule.rounds[1]
    rounds = list(round_steps(plan.rounds[1], 1))
    for position, ((_, steps), phase) in enumerate(zip(rounds, phases, strict=True)):
        assert [step.repeat for step in steps] == list(range(phase.repeat))
        for step in steps:
            assert (step.round, step.kind, step.phase) == (1, phase.kind, position)
            assert (step.closing, step.synchronous) == (phase.closing, name == "synchronous")


@pytest.mark.parametrize("parts", [1, 2])
def test_synchronous_steps_over_csr_are_synchronous(parts):
    ring = gpnn.Graph([0, 1, 2, 3], [1, 2, 3, 0], num_nodes=4).to_undirected()
    csr = ring.to_scipy().tocsr()
    ptr, col = torch.from_numpy(csr.indptr).long(), torch.from_numpy(csr.indices).long()
    part_ptr = torch.tensor([0, 4] if parts == 1 else [0, 2, 4])
    plan = lower_csr(ptr, col, torch.arange(4), part_ptr, gpnn.schedule.synchronous_phases(), rounds=2)
    ((_, (step,)),) = round_steps(plan.rounds[0], 0)
    assert step.synchronous
