"""The schedules of the paper's own graphs."""

import pytest

import gpnn
from gpnn.schedule import broadcast, partitioned, random_edges, sequential, spanning_trees, synchronous


def test_a_round_on_pubmed_has_174_levels(data_root):
    schedule = sequential(gpnn.load_dataset("pubmed", root=data_root), rounds=5)
    assert len(schedule.rounds[0]) == 174
    assert len(list(schedule.distinct_phases())) == 174


@pytest.mark.parametrize("build", [synchronous, partitioned, sequential, spanning_trees, random_edges])
def test_nell_keeps_its_parallel_edges(data_root, build):
    graph = gpnn.Graph.from_data(gpnn.load_dataset("nell", root=data_root, rate=0.001))
    options = {"part": gpnn.partition_graph(graph, 10)} if build is partitioned else {}
    schedule = build(graph, rounds=5, **options)
    num_components = int(graph.components().max()) + 1
    messages = {spanning_trees: 5 * (graph.num_nodes - num_components), random_edges: graph.num_edges}
    assert graph.num_edges == 532_288
    assert schedule.num_messages == messages.get(build, 5 * graph.num_edges)
    reach = broadcast(graph, schedule, sources=128)
    assert 0 < reach.components_coverage <= 1
    assert reach.num_components == num_components
