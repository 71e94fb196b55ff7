"""A description of a phase refuses what it cannot mean; the schedules resolve it."""

import pytest

import gpnn
from gpnn.schedule import PhaseSpec, held_cut_phases, partitioned_phases, synchronous_phases


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("level",), r"`kind` must be one of all, inside, cut, held\. Got 'level'"),
        (("inside", 0), r"`repeat` must be .*Got 0"),
        (("cut", 1, "senders"), r"`update` must be one of members, receivers\. Got 'senders'"),
        (("held", 1, "receivers"), r"`update` must be one of members\. Got 'receivers'"),
    ],
)
def test_faults_are_named(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PhaseSpec(*arguments)


def test_schedules_have_the_phases_that_they_describe() -> None:
    chain = gpnn.Graph([0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2], num_nodes=4)
    part = [0, 0, 1, 1]
    cases = [
        (gpnn.schedule.synchronous(chain, 1), synchronous_phases()),
        (gpnn.schedule.partitioned(chain, part, 1, intra=3, cut=2), partitioned_phases(3, 2)),
        (gpnn.schedule.partitioned(chain, part, 1, intra=0, update="receivers"), partitioned_phases(0, 1, "receivers")),
        (gpnn.schedule.held_cut(chain, part, 1, intra=3), held_cut_phases(3)),
    ]
    for schedule, specs in cases:
        found = [(phase.kind, phase.repeat, phase.closing) for phase in schedule.rounds[0]]
        assert found == [(spec.kind, spec.repeat, spec.closing) for spec in specs]
