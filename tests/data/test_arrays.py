import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from gpnn.data.arrays import data_from_arrays, encode_labels, hold_out

NAN = float("nan")
PATH = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "adjacency", [PATH, PATH.tolist(), scipy.sparse.csr_matrix(PATH), networkx.path_graph(3), torch.tensor(PATH)]
)
def test_any_adjacency(adjacency):
    data, classes = data_from_arrays(np.eye(3), [4, -1, 2], adjacency)
    assert sorted(zip(*data.edge_index.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert data.x.dtype == torch.float32
    assert (data.y.tolist(), classes.tolist(), data.train_mask.tolist()) == ([1, -1, 0], [2, 4], [True, False, True])


def test_sparse_features_stay_sparse():
    data, _ = data_from_arrays(scipy.sparse.eye(3, format="coo"), None, PATH)
    assert data.x.layout == torch.sparse_csr
    assert data.get("y") is None


@pytest.mark.parametrize(
    ("labels", "numbers", "classes"),
    [
        ([1.0, -1.0, 0.0], [1, -1, 0], [0.0, 1.0]),
        (["b", "-1", "a"], [1, -1, 0], ["a", "b"]),
        (np.array(["b", None, -1, "a"], object), [1, -1, -1, 0], ["a", "b"]),
        (["b", NAN, "", " ", "NaN", "a"], [1, -1, -1, -1, -1, 0], ["a", "b"]),
        (np.array(["b", NAN, "", "a"], object), [1, -1, -1, 0], ["a", "b"]),
        ([3.0, NAN, 1.0], [1, -1, 0], [1.0, 3.0]),
        (np.array([3, None, NAN, 1], object), [1, -1, -1, 0], [1, 3]),
        ([True, False], [1, 0], [False, True]),
    ],
)
def test_labels_of_any_kind(labels, numbers, classes):
    encoded, found = encode_labels(labels)
    assert (encoded.tolist(), found.tolist()) == (numbers, classes)


def test_mistakes_name_the_lengths():
    with pytest.raises(ValueError, match="Arrays must come with `adjacency`"):
        data_from_arrays(np.eye(3), [0, 1, 0], None)
    with pytest.raises(ValueError, match=r"`X` must have one row for each of the 3 nodes. Got 2."):
        data_from_arrays(np.eye(2), [0, 1, 0], PATH)
    with pytest.raises(ValueError, match=r"`y` must have one label for each of the 3 nodes. Got 2."):
        data_from_arrays(np.eye(3), [0, 1], PATH)


def test_validation_nodes_are_held_out_of_the_training_nodes():
    data = Data(y=torch.tensor([0] * 10 + [1] * 10 + [-1] * 5), num_nodes=25)
    held = hold_out(data, 0.2, seed=0)
    assert (int(held.train_mask.sum()), int(held.val_mask.sum())) == (16, 4)
    assert held.y[held.val_mask].bincount().tolist() == [2, 2]
    assert not (held.train_mask & held.val_mask).any()
    assert data.get("train_mask") is None
    assert torch.equal(hold_out(data, 0.2, seed=0).val_mask, held.val_mask)


def test_a_validation_mask_that_is_there_is_kept():
    mask = torch.tensor([True, False])
    data = Data(y=torch.tensor([0, 1]), train_mask=mask, val_mask=~mask)
    assert torch.equal(hold_out(data, 0.5, seed=0).val_mask, ~mask)
    assert hold_out(Data(y=torch.tensor([0, 1])), 0.0, seed=0).get("val_mask") is None


def test_several_labels_a_node():
    y = np.array([[1, 0], [-1, -1], [1, 1]])
    data, classes = data_from_arrays(np.eye(3), y, PATH)
    assert data.y.tolist() == y.tolist()
    assert (classes.tolist(), data.train_mask.tolist(), data.num_classes) == ([0, 1], [True, False, True], 2)


def test_validation_nodes_of_several_labels():
    y = torch.cat([torch.zeros(8, 2), torch.ones(2, 2), torch.full((3, 2), -1.0)])
    held = hold_out(Data(y=y, num_nodes=13), 0.2, seed=0)
    assert (int(held.train_mask.sum()), int(held.val_mask.sum())) == (8, 2)
    assert not (held.train_mask | held.val_mask)[10:].any()


def test_a_column_of_labels_is_one_label_a_node():
    assert encode_labels(np.array([[2], [-1], [0]]))[0].tolist() == [1, -1, 0]


def test_real_numbers_are_no_classes():
    for labels in ([0.5, 1.5, 2.0], np.array([0.5, None, 2.0], object), ["0.5", "nan", "2"]):
        with pytest.raises(ValueError, match=r"`y` must hold classes, .*GPNNRegressor.*\. Got [12] different numbers"):
            encode_labels(labels)


class ReadOnly:
    """What numpy makes of it cannot be written, as with pandas."""

    def __init__(self, values):
        self.values = np.array(values)
        self.values.flags.writeable = False

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype, copy=False)


def test_arrays_that_may_not_be_written_are_taken_without_a_warning():
    """torch would warn of a tensor over them; warnings are errors in these tests."""
    x = ReadOnly(np.asfortranarray(np.eye(3, dtype=np.float32)))
    data, _ = data_from_arrays(x, ReadOnly([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ReadOnly(PATH).values)
    data.x += 1
    assert x.values.tolist() == np.eye(3).tolist()
    assert data_from_arrays(x, ReadOnly([0, 1, -1]), PATH)[0].y.tolist() == [0, 1, -1]
    assert data_from_arrays(np.eye(3)[::-1], None, PATH)[0].x.tolist() == np.eye(3)[::-1].tolist()


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame({"size": [1.0, 2.0, 3.0], "age": [4.0, 5.0, 6.0]})
    for labels in (["a", None, "b"], ["a", NAN, "b"], pandas.array([0, None, 1], "Int64"), [0.0, NAN, 1.0]):
        data, classes = data_from_arrays(x, pandas.Series(labels), PATH)
        assert data.y.tolist() == [0, -1, 1]
        assert len(classes) == 2
