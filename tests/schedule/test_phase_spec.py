"""A description of a phase refuses what it cannot mean; the schedules resolve it."""

import pytest
import torch

import gpnn
from gpnn.schedule import PhaseSpec, held_cut_phases, partitioned_phases, synchronous_phases
from gpnn.schedule.phase_spec import _count_on_device, count_crossings


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


@pytest.mark.parametrize("directed", [False, True])
def test_the_halo_of_a_subgraph_are_the_nodes_that_send_into_it(directed: bool) -> None:
    random = torch.Generator().manual_seed(0)
    a, b = torch.randint(30, (2, 60), generator=random)
    src, dst = (a, b) if directed else (torch.cat([a, b]), torch.cat([b, a]))
    ptr, col, _ = gpnn.Graph(src, dst, 30).in_edges(with_edge=False)
    graph = gpnn.Graph.from_csr(torch.from_numpy(ptr), torch.from_numpy(col), symmetric=not directed)
    label = torch.randint(4, (30,), generator=random)
    found = count_crossings(graph, gpnn.Partition(label, 4)), _count_on_device(graph, gpnn.Partition(label, 4))
    expected = [src[(label[dst] == part) & (label[src] != part)].unique().numel() for part in range(4)]
    if directed:
        assert all(bound >= count for bound, count in zip(found[0].halo.tolist(), expected))
    else:
        assert [each.halo.tolist() for each in found] == [expected, expected]
