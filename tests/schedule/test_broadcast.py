from importlib import import_module

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn import Graph
from gpnn.schedule import (
    broadcast,
    compare_schedules,
    partitioned,
    random_edges,
    sequential,
    spanning_trees,
    synchronous,
)
from gpnn.schedule import broadcast as public_broadcast
from tests.oracle.reach import known_by_step, step_costs
from tests.oracle.small_graphs import chain, graphs, ring, undirected_graphs


def check_against_oracle(graph, schedule):
    reach = broadcast(graph, schedule)
    history, costs = known_by_step(schedule), step_costs(schedule)
    real = range(graph.num_nodes)
    labels = schedule.graph.components().tolist()
    component = [{s for s in real if labels[s] == labels[node]} for node in real]
    solving = [step for step, known in enumerate(history) if all(len(known[v]) == len(real) for v in real)]
    splitting = [step for step, known in enumerate(history) if all(known[v] == component[v] for v in real)]
    assert reach.solved == bool(solving)
    assert reach.components_solved == bool(splitting)
    done = costs[: solving[0] if solving else len(costs)]
    assert reach.num_steps == len(done)
    assert (reach.num_messages, reach.num_updates) == (sum(m for m, _ in done), sum(u for _, u in done))
    within = costs[: splitting[0] if splitting else len(costs)]
    assert reach.components_messages == sum(m for m, _ in within)
    assert reach.components_updates == sum(u for _, u in within)
    reached = sum(len(history[-1][v]) - 1 for v in real)
    pairs = len(real) * (len(real) - 1)
    assert reach.coverage == (reached / pairs if pairs else 1.0)


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(),
    rounds=st.integers(1, 4),
    parts=st.integers(1, 4),
    virtual=st.sampled_from([None, "graph", "subgraph"]),
)
@pytest.mark.thorough
def test_partitioned_matches_the_oracle(graph, rounds, parts, virtual):
    labels = torch.arange(graph.num_nodes) % parts
    check_against_oracle(graph, partitioned(graph, labels, rounds, intra=2, virtual=virtual))


@pytest.mark.parametrize("build", [synchronous, sequential, spanning_trees, random_edges])
@settings(max_examples=25, deadline=None)
@given(graph=undirected_graphs(), rounds=st.integers(1, 5))
@pytest.mark.thorough
def test_the_others_match_the_oracle(build, graph, rounds):
    check_against_oracle(graph, build(graph, rounds))


def test_the_papers_example():
    """Sect. 3.2: six nodes, ten messages per step, two subgraphs of diameter 2: 50 and 36 messages."""
    graph = chain(6)
    plain, parted = synchronous(graph, 5), partitioned(graph, [0, 0, 0, 1, 1, 1], rounds=2, intra=2)
    assert (plain.num_messages, parted.num_messages) == (50, 36)
    assert broadcast(graph, plain).num_messages == 50
    reach = broadcast(graph, parted)
    assert reach.num_messages == 34  # the last cut step is not needed
    assert (reach.num_steps, reach.num_rounds, reach.num_updates) == (5, 2, 2 * 6 + 2 + 2 * 6)
    assert not broadcast(graph, synchronous(graph, 4)).solved


@pytest.mark.parametrize(("size", "parts"), [(n, k) for n in range(2, 25) for k in range(1, n + 1) if n % k == 0])
def test_the_proposition_on_chains(size, parts):
    """A.1: 2(N−1)² messages, and 2((N−K)² + (K−1)²) with T_S = N/K − 1, T_C = 1, wherever K divides N."""
    graph = chain(size)
    plain = broadcast(graph, synchronous(graph, size - 1))
    assert (plain.solved, plain.num_messages) == (True, 2 * (size - 1) ** 2)
    labels = np.repeat(np.arange(parts), size // parts)
    schedule = partitioned(graph, labels, rounds=parts, intra=size // parts - 1)
    reach = broadcast(graph, schedule)
    assert (reach.solved, reach.num_messages) == (True, 2 * ((size - parts) ** 2 + (parts - 1) ** 2))


@pytest.mark.parametrize("size", range(3, 40, 2))
def test_the_optimum_is_half_of_synchronous_by_the_algebra(size):
    """A.1: K = (N+1)/2 is best; it never divides N > 1, so no even partition of a chain attains it."""
    cost = {parts: 2 * ((size - parts) ** 2 + (parts - 1) ** 2) for parts in range(1, size + 1)}
    best = (size + 1) // 2
    assert min(cost, key=cost.__getitem__) == best
    assert 2 * cost[best] == 2 * (size - 1) ** 2
    assert size % best != 0


def test_a_ring_of_eight_needs_more_than_synchronous_when_phases_run_whole():
    """Against Sect. 3.2's "no more messages than the synchronous schedule"."""
    graph = ring(8)
    plain = broadcast(graph, synchronous(graph, 4))
    assert (plain.solved, plain.num_messages, plain.num_updates) == (True, 64, 32)
    schedule = partitioned(graph, [0, 0, 0, 0, 1, 1, 1, 1], rounds=2, intra=3)
    reach = broadcast(graph, schedule)
    inside, cut = schedule.rounds[0]
    assert reach.solved
    assert reach.num_rounds == 2
    assert 2 * inside.num_messages + cut.num_messages == 76 > plain.num_messages
    assert reach.num_messages == 52  # its second inside phase need not run whole


def test_a_star_needs_more_than_synchronous_even_step_by_step():
    """One leaf its own subgraph, T_S = D_S = 2: 8 + 2 + 4 messages against 6 + 6."""
    star = Graph([0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0], num_nodes=4)
    assert broadcast(star, synchronous(star, 2)).num_messages == 12
    reach = broadcast(star, partitioned(star, [0, 0, 0, 1], rounds=2, intra=2))
    assert (reach.solved, reach.num_messages, reach.num_updates) == (True, 14, 14)


def test_components_are_judged_apart_from_the_whole():
    two_pairs = Graph([0, 1, 2, 3], [1, 0, 3, 2], num_nodes=4)
    reach = broadcast(two_pairs, synchronous(two_pairs, 3))
    assert not reach.solved
    assert (reach.num_messages, reach.num_updates, reach.num_components) == (12, 12, 2)
    assert reach.components_solved
    assert (reach.components_messages, reach.components_updates) == (4, 4)
    assert (reach.coverage, reach.components_coverage) == (4 / 12, 1.0)


def test_a_single_node_knows_all_at_once():
    alone = Graph([], [], num_nodes=1)
    reach = broadcast(alone, synchronous(alone, 2))
    assert (reach.solved, reach.num_messages, reach.num_steps, reach.coverage) == (True, 0, 0, 1.0)


def test_one_way_edges_never_solve_it():
    path = Graph([0, 1], [1, 2], num_nodes=3)
    reach = broadcast(path, synchronous(path, 9))
    assert not reach.solved
    assert reach.coverage == 3 / 6
    assert reach.num_messages == 18


def test_many_groups_of_sources_agree_with_one(monkeypatch):
    graph = ring(200)
    schedule = partitioned(graph, torch.arange(200) // 50, rounds=5, intra=40)
    together = broadcast(graph, schedule)
    monkeypatch.setattr(import_module("gpnn.schedule.broadcast"), "_BUFFER", 1)  # 64 sources at a time
    assert broadcast(graph, schedule) == together
    assert together.solved


def test_sources_may_be_named_or_drawn():
    graph = chain(6)
    from_the_end = broadcast(graph, synchronous(graph, 3), sources=torch.tensor([0]))
    assert (from_the_end.num_sources, from_the_end.coverage) == (1, 3 / 5)
    from_the_middle = broadcast(graph, synchronous(graph, 3), sources=[2, 3])
    assert (from_the_middle.solved, from_the_middle.num_messages) == (True, 30)
    drawn = [broadcast(graph, synchronous(graph, 2), sources=3, seed=seed).coverage for seed in range(8)]
    assert len(set(drawn)) > 1


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (0, "`sources` must be an integer of at least 1"),
        (7, "`sources` must be at most the 6 nodes. Got 7"),
        ([1, 1], "`sources` must hold distinct nodes from 0 to 5"),
        ([6], "`sources` must hold distinct nodes from 0 to 5"),
        (torch.tensor([], dtype=torch.int64), "`sources` must hold distinct nodes"),
    ],
)
def test_refuses_sources_that_are_not_nodes(sources, message):
    with pytest.raises(ValueError, match=message):
        broadcast(chain(6), synchronous(chain(6), 1), sources=sources)


def test_refuses_to_follow_every_node_of_a_large_graph():
    large = chain(100_001)
    schedule = synchronous(large, 1)
    with pytest.raises(ValueError, match=r"at most 100,000 nodes\. Got 100,001: pass `sources`"):
        broadcast(large, schedule)
    assert broadcast(large, schedule, sources=5).num_sources == 5


def test_refuses_another_graphs_schedule():
    with pytest.raises(ValueError, match="`schedule` must be one of the graph given"):
        broadcast(chain(6), synchronous(ring(6), 1))
    with pytest.raises(ValueError, match="`schedule` must be one of the graph given"):
        broadcast(chain(6), synchronous(chain(5), 1))


def test_the_public_name_is_the_function():
    import gpnn

    assert gpnn.schedule.broadcast is public_broadcast


@pytest.mark.slow
def test_how_often_two_subgraphs_need_more_than_synchronous():
    """All connected graphs of 3 to 6 nodes, all splits into two connected subgraphs, T_S = D_S, T_C = 1."""
    networkx = pytest.importorskip("networkx")
    worse = total = 0
    for shape in networkx.graph_atlas_g():
        size = shape.number_of_nodes()
        if not 3 <= size <= 6 or not networkx.is_connected(shape):
            continue
        graph = Graph.from_networkx(shape)
        plain = broadcast(graph, synchronous(graph, networkx.diameter(shape)))
        for mask in range(1, 2 ** (size - 1)):
            labels = [mask >> node & 1 for node in range(size)]
            halves = [shape.subgraph([n for n in range(size) if labels[n] == half]) for half in (0, 1)]
            if all(map(networkx.is_connected, halves)):
                steps = max(map(networkx.diameter, halves))
                reach = broadcast(graph, partitioned(graph, labels, rounds=6, intra=steps))
                assert reach.solved
                total, worse = total + 1, worse + (reach.num_messages > plain.num_messages)
    assert (worse, total) == (704, 1913)


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
