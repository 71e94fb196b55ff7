from gpnn import Graph
from gpnn.schedule import compare_schedules, partitioned, spanning_trees, synchronous
from tests.oracle.small_graphs import chain


def test_one_row_a_schedule_in_the_order_given():
    graph = chain(6)
    rows = compare_schedules(
        graph,
        {
            "partitioned": partitioned(graph, [0, 0, 0, 1, 1, 1], rounds=2, intra=2),
            "synchronous": synchronous(graph, 5),
        },
    )
    assert [row.name for row in rows] == ["partitioned", "synchronous"]
    first, second = rows
    assert (first.num_rounds, first.num_phases, first.num_steps) == (2, 4, 6)
    assert (first.num_messages, first.num_updates) == (36, 28)
    assert (first.messages_to_solve, first.updates_to_solve) == (34, 26)
    assert (second.messages_to_solve, second.updates_to_solve) == (50, 30)


def test_what_is_never_solved_has_no_cost():
    graph = chain(6)
    (row,) = compare_schedules(graph, {"trees": spanning_trees(graph, 2)})
    assert (row.reach.solved, row.messages_to_solve, row.updates_to_solve) == (False, None, None)


def test_components_count_as_solved_one_by_one():
    two_pairs = Graph([0, 1, 2, 3], [1, 0, 3, 2], num_nodes=4)
    (row,) = compare_schedules(two_pairs, {"synchronous": synchronous(two_pairs, 3)})
    assert (row.reach.solved, row.messages_to_solve, row.updates_to_solve) == (False, 4, 4)


def test_sources_are_passed_on():
    (row,) = compare_schedules(chain(9), {"synchronous": synchronous(chain(9), 1)}, sources=2)
    assert row.reach.num_sources == 2
