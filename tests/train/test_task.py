import json

import pytest
import torch
from torch_geometric.data import Data

from gpnn.train.objective import Examples
from gpnn.train.task import Classification, parse_task, task_of


def test_splits_hold_labelled_nodes_only():
    mask = torch.tensor([True, True, False])
    examples = Examples.from_data(Data(y=torch.tensor([2, -1, 0]), train_mask=mask, test_mask=~mask))
    assert {split: nodes.tolist() for split, nodes in examples.nodes.items()} == {"train": [0], "val": [], "test": [2]}
    assert examples.target("train").tolist() == [2]


def test_classes_nobody_has_still_count():
    data = Data(y=torch.tensor([0, 1]))
    data.num_classes = 210
    assert task_of(data).num_outputs == 210
    assert task_of(Data(y=torch.zeros(4, 5))).num_outputs == 5


def test_multi_label_splits_leave_unlabelled_rows_out():
    y = torch.tensor([[0.0, 1.0], [-1.0, -1.0], [float("nan"), float("nan")], [0.0, 0.0]])
    examples = Examples.from_data(Data(y=y, train_mask=torch.ones(4, dtype=torch.bool)))
    assert examples.nodes["train"].tolist() == [0, 3]
    assert examples.target("train").tolist() == [[0, 1], [0, 0]]
    assert task_of(Data(y=y)).name == "multi_label"


def test_a_calibrated_task_goes_through_json():
    task = Classification(2, temperature=2.0, offsets=(0.5, -0.5))
    assert parse_task(json.loads(json.dumps(task.to_mapping())), "task.json") == task
    assert torch.allclose(task.predict(torch.zeros(1, 2)), torch.softmax(torch.tensor([[0.5, -0.5]]), 1))
    assert parse_task({"name": "classification", "num_classes": 2}, "task.json") == Classification(2)  # older versions
    assert task.uncalibrated() == Classification(2)


@pytest.mark.parametrize("offsets", [[1.0], [1.0, float("nan")], 3, ["a", "b"]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(ValueError, match="must hold a task"):
        parse_task({"name": "classification", "num_classes": 2, "offsets": offsets}, "task.json")


def test_several_labels_are_all_that_are_more_likely_than_not():
    chosen, each = Classification(3, multi_label=True).columns(
        torch.tensor([[0.9, 0.2, 0.6], [0.1, 0.4, 0.5]]), ["a", "b", "c"]
    )
    assert chosen["prediction"].to_pylist() == ["a; c", ""]
    assert chosen["confidence"].tolist() == pytest.approx([0.6, 0.5])
    assert list(each) == ["p_a", "p_b", "p_c"]
