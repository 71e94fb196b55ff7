import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpnn.report.counts import MAX_CLASSES
from gpnn.report.predictions import calibration, classes, reliability
from gpnn.train.loss import BINS, bin_confidence
from tests.oracle.multi_hot import multi_hot_graph


def test_of_many_classes_the_others_are_one_column(inputs):
    data = inputs.data.clone()
    data.y = torch.arange(90) % 80
    data.test_mask = torch.ones(90, dtype=torch.bool)
    probabilities = torch.nn.functional.one_hot((data.y + 1) % 80, 80).float()
    section = classes(inputs.gather(data=data, predictions=probabilities))
    trace = section.parts[2].views["test"][0]
    assert (len(trace["z"]), len(trace["z"][0])) == (MAX_CLASSES, MAX_CLASSES + 1)
    assert all(abs(sum(row) - 1) < 1e-6 for row in trace["z"])
    assert trace["z"][MAX_CLASSES - 1][MAX_CLASSES] == 1.0
    assert "The 60 largest of 80 are shown." in section.lead


def test_with_42_classes_bars_are_sorted_in_one_colour_and_confusions_are_named(inputs):
    data = inputs.data.clone()
    data.y = torch.arange(90) % 42
    data.test_mask = torch.ones(90, dtype=torch.bool)
    given = torch.where(data.y == 7, 9, torch.where(torch.arange(90) == 20, 21, data.y))
    section = classes(inputs.gather(data=data, predictions=torch.nn.functional.one_hot(given, 42).float()))
    accuracy, confused, matrix = section.parts
    bars = accuracy.views["test"][0]
    assert len(bars["x"]) == 42
    assert bars["x"] == sorted(bars["x"], reverse=True)
    assert len(set(bars["marker"]["color"])) == 1
    assert bars["textposition"][-1] == "outside"  # a bar of no length has its text beside it
    assert accuracy.layout["yaxis"]["ticktext"][-1] == "7"
    assert confused.rows == [("7 → 9", 2, "100.0 %"), ("20 → 21", 1, "50.0 %")]
    assert matrix.wide
    assert matrix.layout["xaxis"]["tickangle"] == -90


def test_accuracy_and_matrix_agree_with_the_predictions(inputs):
    section = classes(inputs.gather())
    nodes = inputs.data.test_mask.nonzero().flatten()
    right = inputs.predictions.argmax(1)[nodes] == inputs.data.y[nodes]
    accuracy, matrix = (part.views["test"][0] for part in section.parts[:2])
    names = section.parts[0].layout["yaxis"]["ticktext"]
    for number in range(3):
        own, place = inputs.data.y[nodes] == number, names.index(str(number))
        assert abs(accuracy["x"][place] - float(right[own].float().mean())) < 1e-4
        assert abs(matrix["z"][number][number] - accuracy["x"][place]) < 1e-4
    assert sum(map(sum, matrix["text"])) == nodes.numel()


def test_a_class_without_nodes_is_no_problem(inputs):
    wider = torch.cat([inputs.predictions, torch.zeros(inputs.predictions.shape[0], 1)], 1)
    section = classes(inputs.gather(predictions=wider))
    assert section.parts[0].views["test"][0]["text"][3] == "no node"


def test_several_labels_get_their_f1(inputs):
    data: Data = multi_hot_graph()
    probabilities = torch.where(data.y > 0, 0.9, 0.1)
    section = classes(inputs.gather(data=data, predictions=probabilities, partition=None, states=None))
    assert section.title == "Labels"
    assert section.parts[0].views["test"][0]["x"] == [1.0] * 4


def test_without_labels_there_is_nothing_to_show(inputs):
    data = inputs.data.clone()
    data.y = torch.full_like(data.y, -1)
    assert classes(inputs.gather(data=data)) is None


def slow_error(confidence: list[float], right: list[bool]) -> float:
    """Σ_b n_b/n · |accuracy_b − confidence_b|, a bin at a time."""
    error = 0.0
    for number in range(BINS):
        members = [i for i, c in enumerate(confidence) if min(int(c * BINS), BINS - 1) == number]
        if members:
            sure = sum(confidence[i] for i in members) / len(members)
            good = sum(right[i] for i in members) / len(members)
            error += len(members) / len(confidence) * abs(good - sure)
    return error


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_the_error_is_the_definition(pairs):
    confidence, right = (list(column) for column in zip(*pairs))
    found = reliability(bin_confidence(torch.tensor(confidence, dtype=torch.float64), torch.tensor(right)))
    assert found.error == pytest.approx(slow_error(confidence, right), abs=1e-8)
    assert int(found.count.sum()) == len(pairs)


def test_a_calibrated_model_has_no_error():
    right = torch.tensor([True, True, True, False, True, True])
    found = reliability(bin_confidence(torch.tensor([0.75] * 4 + [1.0] * 2), right))
    assert found.error == 0
    assert found.bin.tolist() == [7, 9]
    assert found.accuracy.tolist() == [0.75, 1.0]


def test_the_section_names_each_split(record):
    section = calibration(record)
    assert list(section.parts[0].views) == ["test", "validation"]
    assert "on test" in section.lead
    assert "on validation" in section.lead
