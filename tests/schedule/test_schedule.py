import pytest
import torch

from gpnn import Graph
from gpnn.schedule import Phase, Schedule
from tests.oracle.small_graphs import chain


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


TWO_PAIRS = Graph([0, 1, 2, 3, 1], [1, 0, 3, 2, 2], num_nodes=4)  # 0 ⇄ 1, 2 ⇄ 3, and edge 4: 1 → 2


def test_counts_follow_the_repeats():
    phase = Phase(ids(0, 1, 2), ids(0, 1), repeat=4)
    assert (phase.num_messages, phase.num_updates, phase.num_blocks) == (12, 8, 1)


def test_blocks_slice_edges_and_nodes():
    phase = Phase(ids(0, 1, 2, 3), ids(0, 1, 2, 3), 1, "inside", ids(0, 2, 2, 4), ids(0, 2, 2, 4))
    phase.check(TWO_PAIRS)
    blocks = [(edges.tolist(), nodes.tolist()) for edges, nodes in phase.blocks()]
    assert blocks == [([0, 1], [0, 1]), ([], []), ([2, 3], [2, 3])]


def test_repr_is_short():
    assert repr(Phase(ids(0), ids(1), 2, "inside", ids(0, 1), ids(0, 1))) == (
        "Phase('inside', edges=1, nodes=1, repeat=2, blocks=1)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeat": 0}, "`repeat` must be at least 1. Got 0"),
        ({"edge_ptr": ids(0, 1)}, "needs both `edge_ptr` and `node_ptr`"),
        ({"edge_ptr": ids(0, 1), "node_ptr": ids(0, 1, 1)}, "equally long. Got 2 and 3"),
        ({"edge_ptr": ids(0, 2), "node_ptr": ids(0, 1)}, "`edge_ptr` must rise from 0 to 1"),
        ({"edge_ptr": ids(0, 1), "node_ptr": ids(1, 1)}, "`node_ptr` must rise from 0 to 1"),
        ({"edge_ptr": ids(0, 1).int(), "node_ptr": ids(0, 1)}, "`edge_ptr` must be an int64 tensor"),
    ],
)
def test_refuses_what_is_not_a_phase(options, message):
    with pytest.raises(ValueError, match=message):
        Phase(ids(0), ids(1), **options)


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase(ids(9), ids(0)), "`edges` must lie from 0 to 4. Got 9"),
        (Phase(ids(), ids(-1)), "`nodes` must lie from 0 to 3. Got -1"),
        (Phase(torch.tensor([0.0]), ids(0)), "`edges` must be a one-dimensional int64 tensor"),
        (Phase(ids(), ids(2, 0, 2)), "Node 2 comes twice"),
        (Phase(ids(0), ids(0)), "Node 1 is not"),
        (Phase(ids(0, 2), ids(1, 3), 1, "inside", ids(0, 1, 2), ids(0, 2, 2)), "Edge 2 does"),
        (Phase(ids(1, 4), ids(0, 1, 2), 1, "inside", ids(0, 1, 2), ids(0, 2, 3)), "Edge 4 does"),
        (Phase(ids(1, 4), ids(0, 2), 1, "inside", ids(0, 1, 2), ids(0, 1, 2)), "Edge 4 does"),
    ],
    ids=["edge", "node", "dtype", "twice", "silent", "into-other-block", "written-elsewhere", "read-twice"],
)
def test_refuses_a_phase_that_does_not_fit(phase, message):
    owner = torch.full((4,), -1)
    with pytest.raises(ValueError, match=message):
        phase.check(TWO_PAIRS, owner)
    assert owner.tolist() == [-1] * 4


def test_a_block_may_read_a_node_that_does_not_update():
    owner = torch.full((4,), -1)
    Phase(ids(0, 2), ids(1, 3), 1, "inside", ids(0, 1, 2), ids(0, 1, 2)).check(TWO_PAIRS, owner)
    assert owner.tolist() == [-1] * 4


def test_without_blocks_any_sender_will_do():
    Phase(ids(0, 1, 2), ids(1, 2, 3)).check(chain(4))


def one_phase() -> Phase:
    return Phase(torch.tensor([0, 1]), torch.tensor([1, 2]), repeat=3)


def test_counts_add_up_over_rounds_phases_and_repeats():
    phase = one_phase()
    schedule = Schedule(chain(3), ((phase, phase), (phase,)))
    assert schedule.num_rounds == 2
    assert schedule.num_phases == 3
    assert schedule.num_steps == 9
    assert schedule.num_messages == schedule.num_updates == 18
    assert repr(schedule) == "Schedule(rounds=2, phases=3, messages=18, updates=18)"


def test_distinct_phases_are_objects_in_order_of_first_use():
    first, second = one_phase(), one_phase()
    schedule = Schedule(chain(3), ((first, second), (first, second)))
    assert [id(phase) for phase in schedule.distinct_phases()] == [id(first), id(second)]


def test_checks_every_phase_when_it_is_made():
    good, bad = one_phase(), Phase(torch.tensor([0]), torch.tensor([2]))
    with pytest.raises(ValueError, match="Node 1 is not"):
        Schedule(chain(3), ((good,), (bad,)))


def test_a_round_may_be_empty():
    assert Schedule(chain(2), ((), ())).num_messages == 0
