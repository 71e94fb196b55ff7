import pytest
import torch

from gpnn.schedule import Phase, Schedule
from tests.oracle.small_graphs import chain


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
