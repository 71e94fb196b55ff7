import torch
from torch_geometric.data import Data

from gpnn.train.task import Task, num_classes


def test_splits_hold_labelled_nodes_only():
    mask = torch.tensor([True, True, False])
    task = Task.from_data(Data(y=torch.tensor([2, -1, 0]), train_mask=mask, test_mask=~mask))
    assert {split: nodes.tolist() for split, nodes in task.nodes.items()} == {"train": [0], "val": [], "test": [2]}
    assert task.num_classes == 3
    assert task.target("train").tolist() == [2]


def test_classes_nobody_has_still_count():
    data = Data(y=torch.tensor([0, 1]))
    data.num_classes = 210
    assert num_classes(data) == 210
    assert num_classes(Data(y=torch.zeros(4, 5))) == 5
