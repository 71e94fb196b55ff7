import torch

import gpnn
from gpnn.report import drawing as module
from gpnn.report import gather
from gpnn.report.drawing import drawing
from gpnn.report.states import hover_texts
from tests.oracle.multi_hot import multi_hot_graph


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
