import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import random_edges, synchronous
from tests.oracle.small_graphs import chain, graphs


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


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), rounds=st.integers(1, 6), seed=st.integers(0, 99))
def test_every_edge_is_sent_exactly_once_in_chunks_of_equal_size(graph, rounds, seed):
    schedule = random_edges(graph, rounds, seed)
    chunks = [phases[0].edges.tolist() if phases else [] for phases in schedule.rounds]
    assert sorted(edge for chunk in chunks for edge in chunk) == list(range(graph.num_edges))
    assert max(map(len, chunks)) - min(map(len, chunks)) <= 1
    for phase in schedule.distinct_phases():
        assert phase.nodes.tolist() == sorted(set(graph.dst[phase.edges].tolist()))


def test_counts_messages_and_updates():
    schedule = random_edges(chain(3), rounds=1)
    assert (schedule.num_messages, schedule.num_updates) == (4, 3)


def test_more_rounds_than_edges_leave_empty_rounds():
    schedule = random_edges(chain(2), rounds=4)
    assert [len(phases) for phases in schedule.rounds] == [1, 1, 0, 0]


def test_seeds_differ():
    deals = [torch.cat([p[0].edges for p in random_edges(chain(40), 4, seed).rounds]) for seed in (0, 1)]
    assert not deals[0].equal(deals[1])
