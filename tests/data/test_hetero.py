"""HeteroData through every door, as one graph with typed edges."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from gpnn import GPNNClassifier, GPNNRegressor, load_dataset
from gpnn.train.notes import NoteWarning


def hetero(num_papers: int = 4) -> HeteroData:
    data = HeteroData()
    data["author"].x = torch.tensor([[5.0], [6.0]])
    data["paper"].x = torch.eye(num_papers, 3)
    data["paper"].y = torch.arange(num_papers) % 2
    data["paper"].train_mask = torch.arange(num_papers) < num_papers - 1
    data["venue"].num_nodes = 1
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1], [1, 3]])
    data["paper", "at", "venue"].edge_index = torch.tensor([[2], [0]])
    return data


def test_features_lie_side_by_side_and_labels_are_those_of_the_type_that_has_them():
    data = load_dataset(hetero())
    assert data.edge_index.tolist() == [[0, 1, 4], [3, 5, 6]]
    assert data.edge_type.tolist() == [0, 0, 1]
    assert data.edge_type_names == ["author writes paper", "paper at venue"]
    assert data.node_type.tolist() == [0, 0, 1, 1, 1, 1, 2]
    assert data.node_type_names == ["author", "paper", "venue"]
    expected = np.zeros((7, 7))  # author, paper, then one column for each type
    expected[:2, 0], expected[2:5, 1:4] = [5, 6], np.eye(3)
    expected[np.arange(7), 4 + data.node_type.numpy()] = 1
    assert data.x.to_dense().tolist() == expected.tolist()
    assert data.y.tolist() == [-1, -1, 0, 1, 0, 1, -1]
    assert data.train_mask.tolist() == [False, False, True, True, True, False, False]
    assert data.num_classes == 2


def test_sparse_features_and_several_labels():
    given, sparse = hetero(), hetero()
    sparse["paper"].x = sparse["paper"].x.to_sparse_csr()
    assert load_dataset(sparse).x.to_dense().equal(load_dataset(given).x.to_dense())
    given["paper"].y = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]])
    y = load_dataset(given).y
    assert y[[0, 6]].tolist() == [[-1, -1], [-1, -1]]
    assert y[2:6].equal(given["paper"].y.float())


def test_without_features_there_are_none():
    data = hetero()
    for name, count in (("author", 2), ("paper", 4)):
        del data[name].x
        data[name].num_nodes = count
    assert load_dataset(data).x is None


@pytest.mark.filterwarnings(f"ignore::{NoteWarning.__module__}.{NoteWarning.__qualname__}")
def test_estimators_learn_from_it_and_predict_every_node():
    data = hetero(12)
    data["paper"].test_mask = ~data["paper"].train_mask
    classifier = GPNNClassifier(hidden_channels=4, epochs=2, k=2).fit(data)
    answer = classifier.predict(data)
    assert answer.shape == (15,)
    assert classifier.score(data) == float(answer[13] == 1)
    data["paper"].y = torch.arange(12) / 8
    assert GPNNRegressor(hidden_channels=4, epochs=2, k=2).fit(data).predict(data).shape == (15,)


def test_what_is_wrong_is_named():
    data = hetero()
    data["author"].y = torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"^One node type must have `y`; .* Got 'author', 'paper'\.$"):
        load_dataset(data)
    data = hetero()
    data["paper"].train_mask = torch.ones(3, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"`train_mask` of 'paper' must be booleans, one for each of its 4 nodes"):
        load_dataset(data)
    data = hetero()
    data["author", "writes", "paper"].edge_attr = torch.ones(2, 3)
    with pytest.raises(
        ValueError, match=r"must be a weight, .*edge_attr` leaves it out\)\. Got float32 of shape \[2, 3\]"
    ):
        load_dataset(data)
    data["author", "writes", "paper"].edge_attr = torch.tensor([2.0, 3.0])
    assert load_dataset(data).edge_weight.tolist() == [2, 3, 1]
