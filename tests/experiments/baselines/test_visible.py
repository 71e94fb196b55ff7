import pytest
import torch
from torch_geometric.data import Data

from experiments.baselines.visible import class_shares, labelled, neighbours, visible_data


def test_hides_every_label_outside_training_and_validation(planted: Data) -> None:
    before = planted.y.clone()
    seen = visible_data(planted)
    shown = planted.train_mask | planted.val_mask
    assert torch.equal(seen.y[shown], planted.y[shown])
    assert (seen.y[~shown] == -1).all()
    assert not seen.test_mask.any()
    assert torch.equal(planted.y, before)


def test_the_number_of_classes_outlives_the_hidden_labels() -> None:
    mask = torch.tensor([True, False])
    data = Data(edge_index=torch.empty(2, 0, dtype=torch.int64), y=torch.tensor([0, 4]), train_mask=mask, num_nodes=2)
    assert visible_data(data).num_classes == 5


def test_neighbours_are_symmetric_simple_and_not_oneself() -> None:
    edges = torch.tensor([[0, 0, 1, 2, 2], [1, 1, 1, 1, 0]])
    data = Data(edge_index=edges, num_nodes=4)
    assert neighbours(data).toarray().tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_labelled_nodes_and_class_shares(planted: Data) -> None:
    nodes, classes = labelled(planted, "train")
    assert nodes.tolist() == planted.train_mask.nonzero().flatten().tolist()
    assert class_shares(planted).tolist() == [(classes == each).mean() for each in range(3)]
    assert len(labelled(Data(y=planted.y), "val").nodes) == 0


def test_several_labels_a_node_are_refused_in_one_sentence(planted: Data) -> None:
    several = planted.clone()
    several.y = torch.nn.functional.one_hot(planted.y.clamp(min=0), 3).float()
    with pytest.raises(ValueError, match=r"`y` must hold one class per node, \[N\], for a baseline\. Got shape \["):
        visible_data(several)
