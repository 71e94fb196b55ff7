import pytest

from gpnn.schedule.make_schedule import DEEP_ROUNDS, LARGE_NODES, LONG_ROUNDS, choose_schedule

FAR = {"num_processes": 2}


@pytest.mark.parametrize(
    ("num_nodes", "rounds", "facts"),
    [
        (LARGE_NODES, 5, {}),  # the fused runner of one process
        (LARGE_NODES - 1, 5, FAR),
        (LARGE_NODES, DEEP_ROUNDS - 1, FAR),
    ],
    ids=["nothing moves", "small", "shallow"],
)
def test_the_papers_schedule_unless_all_facts_speak_for_another(num_nodes, rounds, facts):
    choice = choose_schedule(num_nodes, rounds, **facts)
    assert (choice.name, choice.rounds, dict(choice.options)) == ("partitioned", rounds, {})


@pytest.mark.parametrize("facts", [FAR, {"streamed": True}], ids=["processes", "streamed"])
@pytest.mark.parametrize("rounds", range(DEEP_ROUNDS, 13))
def test_the_cut_held_is_no_shallower_and_crosses_the_cut_at_least_twice(rounds, facts):
    choice = choose_schedule(LARGE_NODES, rounds, **facts)
    intra = choice.options["intra"]
    assert choice.name == "held_cut"
    assert intra == (4 if rounds >= LONG_ROUNDS else 2)
    assert choice.rounds >= 2
    assert rounds <= choice.rounds * intra < rounds + intra
