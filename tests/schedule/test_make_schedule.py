import pytest

from gpnn import Graph
from gpnn.schedule.make_schedule import (
    DEEP_ROUNDS,
    LARGE_NODES,
    LONG_ROUNDS,
    choose_hidden,
    choose_parts,
    choose_rounds,
    choose_schedule,
)

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


def test_parts_never_pass_the_nodes():
    assert [choose_parts(num_nodes) for num_nodes in (1, 2, 10, 10_000)] == [1, 2, 2, 17]


def test_subgraphs_of_the_held_cut_have_eight_thousand_nodes_where_they_are_streamed_on_a_cpu():
    assert [choose_parts(size, held=True) for size in (LARGE_NODES - 1, LARGE_NODES, 16 * 10**6)] == [85, 32, 1953]
    assert choose_parts(16 * 10**6, held=True, on_gpu=True) == choose_parts(16 * 10**6, on_gpu=True)


@pytest.mark.parametrize(("num_nodes", "degree", "rounds"), [(2708, 4, 5), (1797, 13, 3), (10**4, 2, 5), (4, 3, 2)])
def test_rounds_cross_a_random_graph(num_nodes, degree, rounds):
    graph = Graph([0] * (num_nodes * degree), [0] * (num_nodes * degree), num_nodes=num_nodes)
    assert choose_rounds(graph) == rounds


def test_rounds_of_a_graph_without_edges():
    assert choose_rounds(Graph([], [], num_nodes=3)) == 2


def test_hidden_grows_with_the_classes():
    assert [choose_hidden(classes) for classes in (2, 32, 33, 1000)] == [128, 128, 256, 512]
