"""What every entry of SCHEDULES promises; an addition is tested on arrival."""

import pytest
import torch
from hypothesis import given, settings

from gpnn import Graph, load_dataset, partition_graph
from gpnn.schedule import SCHEDULES, Schedule, broadcast
from gpnn.schedule.make_schedule import needs_partition, schedule_options
from tests.oracle.small_graphs import chain, undirected_graphs


def build(name: str, graph: Graph, rounds: int) -> Schedule:
    options = {"part": torch.arange(graph.num_nodes) % 2} if needs_partition(name) else {}
    return SCHEDULES[name](graph, rounds=rounds, **options)


def contents(schedule: Schedule) -> list:
    return [
        [(phase.kind, phase.repeat, phase.edges.tolist(), phase.nodes.tolist()) for phase in phases]
        for phases in schedule.rounds
    ]


@pytest.mark.parametrize("name", SCHEDULES)
@settings(max_examples=25, deadline=None)
@given(graph=undirected_graphs())
def test_every_schedule_is_sound(name, graph):
    schedule = build(name, graph, rounds=3)  # Schedule checks receivers, distinct nodes and blocks
    assert schedule.num_rounds == 3
    assert schedule.graph.num_nodes - schedule.num_virtual == graph.num_nodes
    for phase in schedule.distinct_phases():
        assert phase.nodes.numel() > 0
        assert phase.kind
        assert phase.edges.unique().numel() == phase.edges.numel()
        assert [len(edges) for edges, _ in phase.blocks()] == (
            [len(phase.edges)] if phase.edge_ptr is None else phase.edge_ptr.diff().tolist()
        )
    assert contents(schedule) == contents(build(name, graph, rounds=3))


@pytest.mark.parametrize("name", SCHEDULES)
def test_takes_pyg_data_as_it_takes_a_graph(name):
    graph = chain(5)
    assert contents(build(name, graph.to_data(), 2)) == contents(build(name, graph, 2))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("rounds", [-1, 2.0])
def test_refuses_rounds_that_are_no_count(name, rounds):
    with pytest.raises(ValueError, match=r"`rounds` must be an integer of at least [01]"):
        build(name, chain(3), rounds)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_graph_without_edges_sends_nothing(name):
    assert build(name, Graph([], [], num_nodes=3), 2).num_messages == 0


@pytest.mark.parametrize("name", SCHEDULES)
def test_does_not_touch_global_randomness(name):
    import numpy as np

    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    build(name, chain(6), 2)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.get_rng_state().equal(torch_before)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SCHEDULES)
def test_nell_keeps_its_parallel_edges(data_root, name):
    graph = Graph.from_data(load_dataset("nell", root=data_root, rate=0.001))
    options = {"part": partition_graph(graph, 10)} if needs_partition(name) else {}
    options |= {"intra": 1} if "intra" in schedule_options(name) else {}
    schedule = SCHEDULES[name](graph, rounds=5, **options)
    num_components = int(graph.components().max()) + 1
    messages = {"spanning_trees": 5 * (graph.num_nodes - num_components), "random_edges": graph.num_edges}
    assert graph.num_edges == 532_288
    if name != "priority":  # where the number of messages follows from the residuals
        assert schedule.num_messages == messages.get(name, 5 * graph.num_edges)
    reach = broadcast(graph, schedule, sources=128)
    assert 0 < reach.components_coverage <= 1
    assert reach.num_components == num_components
