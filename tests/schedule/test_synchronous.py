from gpnn import Graph
from gpnn.schedule import synchronous
from tests.oracle.small_graphs import chain


def test_all_edges_and_all_nodes_every_round():
    schedule = synchronous(chain(4), rounds=3)
    (phase,) = schedule.rounds[0]
    assert phase.edges.tolist() == list(range(6))
    assert phase.nodes.tolist() == list(range(4))
    assert phase.kind == "all"
    assert (schedule.num_messages, schedule.num_updates) == (18, 12)


def test_rounds_share_one_phase():
    schedule = synchronous(chain(4))
    assert schedule.num_rounds == 5
    assert len(list(schedule.distinct_phases())) == 1


def test_isolated_nodes_update_too():
    assert synchronous(Graph([0], [1], num_nodes=5), 1).num_updates == 5
