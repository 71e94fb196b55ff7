import numpy as np
import pytest
import torch

import gpnn
from gpnn import Graph, Partition
from gpnn.report import drawing as module
from gpnn.report import gather
from gpnn.report.drawing import MAX_NODES, distinct_pairs, drawing, force_layout, relax
from gpnn.report.states import hover_texts
from tests.oracle.multi_hot import multi_hot_graph
from tests.oracle.relax import slow_relax


def test_every_node_and_pair_is_drawn(record, inputs):
    chart = drawing(record).parts[0]
    assert list(chart.views) == ["subgraph", "prediction", "true class", "right or wrong"]
    for traces in chart.views.values():
        assert sorted(member for trace in traces for member in trace["members"]) == list(range(90))
    assert len(chart.points["x"]) == len(chart.points["text"]) == 90
    pairs = {frozenset(pair) for pair in inputs.data.edge_index.T.tolist() if pair[0] != pair[1]}
    assert len(chart.ground[0]["ends"][0]) == len(pairs)


def test_a_large_graph_is_drawn_by_subgraph(inputs, monkeypatch):
    monkeypatch.setattr(gather, "MAX_NODES", 50)
    chart = drawing(inputs.gather()).parts[0]
    assert chart.title == "The subgraphs"
    assert len(chart.points["x"]) == inputs.partition.num_parts == 3
    sizes = inputs.partition.sizes.tolist()
    assert all(f"{size:,} nodes" in text for size, text in zip(sizes, chart.points["text"]))
    radius = chart.views["subgraph"][0]["marker"]["size"]
    assert sorted(range(3), key=lambda part: sizes[part]) == sorted(range(3), key=lambda part: radius[part])


def test_a_large_graph_without_subgraphs_is_not_drawn(inputs, monkeypatch):
    monkeypatch.setattr(gather, "MAX_NODES", 50)
    assert drawing(inputs.gather(partition=None)) is None


def test_lines_are_sampled_and_said_to_be(record, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 7)
    section = drawing(record)
    assert len(section.parts[0].ground[0]["ends"][0]) == 7
    assert "Lines show 7 of the pairs" in section.lead


def test_many_subgraphs_are_one_trace_of_many_colours(inputs):
    part = gpnn.Partition(torch.arange(90) % 30, num_parts=30)
    traces = drawing(inputs.gather(partition=part)).parts[0].views["subgraph"]
    assert len(traces) == 1
    assert len(set(traces[0]["marker"]["color"])) == 10


def test_hover_tells_what_is_known(inputs):
    data = inputs.data.clone()
    data.y = data.y.clone()
    data.y[0] = -1
    unknown, known, *_ = hover_texts(inputs.gather(data=data).small.facts)
    assert known.startswith("<b>1</b><br>subgraph")
    assert "prediction" in known
    assert "class unknown" in unknown


def test_hover_names_every_label_of_a_node(inputs):
    data = multi_hot_graph(90)
    data.y[0], data.y[1] = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.zeros(4)
    texts = hover_texts(inputs.gather(data=data, predictions=torch.full((90, 4), 0.25)).small.facts)
    assert [text.rpartition("class ")[2] for text in (texts[0], texts[1], texts[89])] == [
        "0, 2, training node",
        "none, training node",
        "unknown",
    ]


CHAIN = Graph([0, 1, 2, 3], [1, 2, 3, 4], num_nodes=5).to_undirected()


def two_cliques(size: int) -> Graph:
    pairs = [(base + a, base + b) for base in (0, size) for a in range(size) for b in range(a)]
    src, dst = zip(*pairs, (0, size))
    return Graph(src, dst, num_nodes=2 * size)


def test_the_kernel_is_the_slow_one():
    random = np.random.default_rng(0)
    start, weight, mass = random.standard_normal((12, 2)), random.random(11), 0.5 + random.random(12)
    src, dst = np.arange(11), np.arange(1, 12)
    places = start.copy()
    relax(places, src, dst, weight, mass, 15, 0.1)
    expected = slow_relax(start, src, dst, weight, mass, steps=15, gravity=0.1)
    np.testing.assert_allclose(places, expected, rtol=1e-9, atol=1e-9)


def test_heavy_edges_are_short():
    weight = torch.tensor([1.0, 0.05])
    places = force_layout(Graph([0, 1], [1, 2], num_nodes=3, edge_weight=weight))
    lengths = np.hypot(*(places[[0, 1]] - places[[1, 2]]).T)
    assert lengths[0] < lengths[1]


def test_a_dense_graph_does_not_fly_apart():
    src, dst = np.triu(np.ones((60, 60)), 1).nonzero()
    places = force_layout(Graph(src, dst, num_nodes=60))
    distance = np.hypot(*(places - places.mean(0)).T)
    assert distance.max() < 4 * np.median(distance)


def test_neighbours_lie_closer_than_strangers():
    places = force_layout(two_cliques(15), seed=1)
    centres = places[:15].mean(0), places[15:].mean(0)
    spread = max(np.hypot(*(places[:15] - centres[0]).T).max(), np.hypot(*(places[15:] - centres[1]).T).max())
    assert np.hypot(*(centres[0] - centres[1])) > spread


def test_the_same_seed_gives_the_same_places():
    graph, part = two_cliques(15), Partition([0] * 15 + [1] * 15, num_parts=2)
    assert np.array_equal(force_layout(graph, part, 3), force_layout(graph, part, 3))
    assert not np.array_equal(force_layout(graph, part, 3), force_layout(graph, part, 4))


def test_a_graph_without_edges_is_laid_out():
    places = force_layout(Graph([], [], num_nodes=40))
    assert np.isfinite(places).all()
    assert len(np.unique(places, axis=0)) == 40


def test_too_large_is_refused():
    with pytest.raises(ValueError, match=r"at most 3000 nodes. Got 3001\."):
        force_layout(Graph([0], [1], num_nodes=MAX_NODES + 1))


def test_pairs_are_distinct_and_without_loops():
    graph = Graph([0, 1, 0, 2], [1, 0, 1, 2], num_nodes=3)
    assert [pairs.tolist() for pairs in distinct_pairs(graph)] == [[0], [1]]
