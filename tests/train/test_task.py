import torch
from torch_geometric.data import Data

from gpnn.train.objective import Examples
from gpnn.train.task import task_of


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
