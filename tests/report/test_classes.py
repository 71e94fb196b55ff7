from dataclasses import replace

import torch
from torch_geometric.data import Data

from gpnn.report.answers import MAX_CLASSES
from gpnn.report.classes import classes
from tests.oracle.multi_hot import multi_hot_graph


def test_of_many_classes_the_others_are_one_column(record):
    data = record.data.clone()
    data.y = torch.arange(90) % 45
    data.test_mask = torch.ones(90, dtype=torch.bool)
    likely = torch.nn.functional.one_hot((data.y + 1) % 45, 45).float()
    section = classes(replace(record, data=data, probabilities=likely))
    trace = section.parts[1].views["test"][0]
    assert (len(trace["z"]), len(trace["z"][0])) == (MAX_CLASSES, MAX_CLASSES + 1)
    assert all(abs(sum(row) - 1) < 1e-6 for row in trace["z"])
    assert trace["z"][MAX_CLASSES - 1][MAX_CLASSES] == 1.0
    assert "The 30 largest of 45 are shown." in section.lead


def test_accuracy_and_matrix_agree_with_the_predictions(record):
    section = classes(record)
    nodes = record.split("test")
    right = record.prediction[nodes] == record.data.y[nodes]
    accuracy, matrix = (part.views["test"][0] for part in section.parts)
    for number in range(3):
        own = record.data.y[nodes] == number
        assert abs(accuracy["x"][number] - float(right[own].float().mean())) < 1e-4
        assert abs(matrix["z"][number][number] - accuracy["x"][number]) < 1e-4
    assert sum(map(sum, matrix["text"])) == nodes.numel()


def test_a_class_without_nodes_is_no_problem(record):
    wider = torch.cat([record.probabilities, torch.zeros(record.probabilities.shape[0], 1)], 1)
    section = classes(replace(record, probabilities=wider))
    assert section.parts[0].views["test"][0]["text"][3] == "no node"


def test_several_labels_get_their_f1(record):
    data: Data = multi_hot_graph()
    likely = torch.where(data.y > 0, 0.9, 0.1)
    section = classes(replace(record, data=data, probabilities=likely))
    assert section.title == "Labels"
    assert section.parts[0].views["test"][0]["x"] == [1.0] * 4


def test_without_labels_there_is_nothing_to_show(record):
    data = record.data.clone()
    data.y = torch.full_like(data.y, -1)
    assert classes(replace(record, data=data)) is None
