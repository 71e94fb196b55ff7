"""Which nodes a change reaches, and which a node's state needs, by hand."""

import numpy as np

from gpnn.graph import Graph
from gpnn.incremental.dynamic_graph import DynamicGraph, affected, local_round, required

PATH = DynamicGraph(Graph([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], num_nodes=6), np.array([0, 0, 1, 1, 2, 2]))
NONE = np.zeros(0, np.int64)


def listed(found):
    return [each.tolist() for each in found]


def test_inside_and_cut_edges_take_turns():
    steps = affected(PATH, local_round("partitioned", 2, {}), np.array([0]), NONE)
    assert listed(steps) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]
    steps = required(PATH, local_round("partitioned", 2, {}), np.array([4]))
    assert listed(steps) == [[0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4], [3, 4], [4]]


def test_held_edges_send_what_there_was_at_the_start_of_the_phase():
    round = local_round("held_cut", 2, {"intra": 2})
    assert listed(affected(PATH, round, np.array([0]), NONE)) == [[0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert listed(required(PATH, round, np.array([3]))) == [[0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3], [2, 3], [3]]


def test_concerned_nodes_count_from_the_first_step_on():
    steps = affected(PATH, local_round("synchronous", 2, {}), NONE, np.array([3]))
    assert listed(steps) == [[], [3], [3, 4]]


def test_schedules_that_are_not_local():
    assert local_round("sequential", 2, {}) is None
    assert local_round("held_cut", 2, {"virtual": "subgraph"}) is None
