"""The schedules that processes make of their shards are, put together, that of the whole graph."""

import pytest

import gpnn
from gpnn.distributed.schedules import SHARD_SCHEDULES
from tests.oracle.sharded_cases import share_case

LABELS = [0, 0, 1, 1, 2, 2, 3, 3]
ONE_WAY = ([0, 1, 1, 3, 3, 4, 6], [1, 0, 2, 2, 5, 3, 7])  # the last rank's subgraphs send nothing and receive nothing
NO_CUT = ([0, 2, 4, 6], [1, 3, 5, 7])
NO_INSIDE = ([1, 3, 5], [2, 4, 6])
OPTIONS = [
    ("synchronous", {}),
    ("partitioned", {}),
    ("partitioned", {"intra": 3, "cut": 2}),
    ("partitioned", {"update": "receivers"}),
    ("partitioned", {"intra": 0}),
    ("partitioned", {"cut": 0}),
    ("held_cut", {"intra": 3}),
]


def test_every_schedule_is_tried():
    assert {name for name, _ in OPTIONS} == set(SHARD_SCHEDULES)


@pytest.mark.parametrize("edges", [ONE_WAY, NO_CUT, NO_INSIDE], ids=["one way", "no cut", "no inside"])
@pytest.mark.parametrize(("name", "options"), OPTIONS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.thorough
def test_shares_make_up_the_whole(processes, edges, name, options, size):
    """Every process has the same phases, in order, and each edge and node of a phase is in one process."""
    graph = gpnn.Graph(*edges, num_nodes=len(LABELS))
    part = () if name == "synchronous" else (LABELS,)
    whole = gpnn.schedule.SCHEDULES[name](graph, *part, rounds=2, **options)
    shares = processes(share_case, edges, LABELS, name, options, size=size)
    for phase, *parts in zip(whole.rounds[0], *shares, strict=True):
        assert {each[:2] for each in parts} == {(phase.kind, phase.repeat)}
        assert sorted(id for each in parts for id in each[2]) == sorted(phase.edges.tolist())
        assert sorted(id for each in parts for id in each[3]) == sorted(phase.nodes.tolist())
        assert sorted(id for each in parts for id in each[4]) == (
            [] if phase.held is None else sorted(phase.held.tolist())
        )


def test_virtual_nodes_and_other_schedules_are_refused(processes):
    with pytest.raises(AssertionError, match="Several processes have no virtual nodes"):
        processes(share_case, ONE_WAY, LABELS, "partitioned", {"virtual": "graph"}, size=2)
    with pytest.raises(
        AssertionError, match="can run the schedules partitioned, held_cut, synchronous from a folder of shards"
    ):
        processes(share_case, ONE_WAY, LABELS, "sequential", {}, size=2)
    with pytest.raises(AssertionError, match=r"must be one of: intra, cut, update, virtual\. Got 'inner'"):
        processes(share_case, ONE_WAY, LABELS, "partitioned", {"inner": 1}, size=2)
