"""check_data accepts sound data and names what is wrong with its place; digests tell datasets apart."""

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gpnn import GPNNClassifier, GPNNRegressor, load_dataset
from gpnn.data import check as module
from gpnn.data import check_data
from gpnn.data.check import digest_data
from gpnn.data.features import csr_tensor
from gpnn.train.notes import NoteWarning

NAN, INF = float("nan"), float("inf")
EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


def make(**changes: Any) -> Data:
    """Three nodes, one in each mask, with `changes`; None removes."""
    parts: dict[str, Any] = {
        "x": torch.eye(3),
        "edge_index": EDGES,
        "y": torch.tensor([0, 1, 1]),
        "train_mask": torch.tensor([True, False, False]),
        "val_mask": torch.tensor([False, True, False]),
        "test_mask": torch.tensor([False, False, True]),
        "num_nodes": 3,
    }
    parts.update(changes)
    return Data(**{name: part for name, part in parts.items() if part is not None})


def mask(*bits: int) -> torch.Tensor:
    return torch.tensor(bits).bool()


class TestAccepting:
    def test_sound_data_comes_back_with_its_classes(self) -> None:
        data = make()
        checked = check_data(data)
        assert checked.num_classes == 2
        assert checked.x is data.x
        assert "num_classes" not in data

    def test_more_classes_than_occur(self) -> None:
        assert check_data(make(num_classes=7)).num_classes == 7

    def test_structure_alone(self) -> None:
        assert check_data(Data(edge_index=EDGES, num_nodes=3)).num_nodes == 3

    def test_labels_of_one_column(self) -> None:
        assert check_data(make(y=torch.tensor([[0], [1], [1]], dtype=torch.int32))).y.tolist() == [0, 1, 1]

    def test_hidden_test_labels(self) -> None:
        assert check_data(make(y=torch.tensor([0, 1, -1]))).num_classes == 2

    def test_sparse_features(self) -> None:
        import numpy as np

        x = csr_tensor(np.array([0, 1, 1, 2]), np.array([0, 4]), np.ones(2, np.float32), (3, 5))
        assert check_data(make(x=x)).x is x


def sparse_nan() -> torch.Tensor:
    import numpy as np

    values = np.array([1, 2, np.nan], np.float32)
    return csr_tensor(np.array([0, 2, 2, 3]), np.array([0, 1, 4]), values, (3, 5))


class TestRefusing:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            (
                {"x": torch.tensor([[1.0], [float("nan")], [0.0]])},
                r"`x` must be finite\. Got nan at node 1, column 0\.",
            ),
            (
                {"x": torch.tensor([[1.0], [0.0], [float("-inf")]])},
                r"`x` must be finite\. Got -inf at node 2, column 0\.",
            ),
            (
                {"x": torch.tensor([[1.0], [0.0], [1e39]], dtype=torch.float64)},
                r"`x` must be finite in 32 bits\. Got 1e\+39 at node 2, column 0\.",
            ),
            ({"x": torch.eye(3).to(torch.complex64)}, r"`x` must be floating point .*\. Got complex64\."),
            ({"y": torch.tensor([0, 1, 1]).to_sparse()}, r"`y` must be a dense tensor\. Got sparse_coo\."),
            ({"train_mask": mask(1, 0, 0).to_sparse()}, r"`train_mask` must be a dense tensor\. Got sparse_coo\."),
            ({"edge_index": torch.tensor([[0], [1]]).to_sparse()}, r"`src` must be a dense tensor\. Got sparse_coo\."),
            ({"x": sparse_nan()}, r"`x` must be finite\. Got nan at node 2, column 4\."),
            ({"x": torch.eye(3).long()}, r"`x` must be floating point \(`x\.float\(\)`\)\. Got int64\."),
            ({"x": torch.eye(3).to(torch.int8)}, r"`x` must be floating point .*, or have `x_scale`\. Got int8\."),
            ({"x": torch.eye(3).to(torch.int8), "x_scale": torch.ones(2)}, r"`x_scale` must hold .* each of 3 columns"),
            ({"x": torch.eye(3).to(torch.int8), "x_scale": torch.full((3,), torch.inf)}, "`x_scale` must be finite"),
            ({"x": torch.eye(2)}, r"`x` must have one row for each of the 3 nodes\. Got 2\."),
            ({"x": torch.ones(3)}, r"`x` must have shape \[3, F\]\. Got \[3\]\."),
            ({"x": torch.eye(3).to_sparse()}, r"`x` must be a dense or sparse CSR tensor .*\. Got sparse_coo\."),
            ({"x": [[1.0]] * 3}, r"`x` must be a dense or sparse CSR tensor .*\. Got list\."),
            ({"class_names": ["a"]}, r"`class_names` must name the 2 classes\. Got 1 names\."),
            (
                {"y": torch.tensor([0.0, 1.5, 1.0]), "task": "classification"},
                r"`y` must hold classes, .*\. Got 1\.5 at node 1\.",
            ),
            ({"y": [0, 1, 1]}, r"`y` must hold integer classes, -1 where unknown\. Got list\."),
            ({"y": torch.tensor([0, 1])}, r"`y` must have one class for each of the 3 nodes\. Got 2\."),
            ({"y": torch.ones(3, 2, 2).long()}, r"`y` must have shape \[3\], .* or \[3, C\], .*\. Got \[3, 2, 2\]\."),
            ({"y": torch.tensor([0, -2, 1])}, r"`y` must hold classes from 0, -1 where unknown\. Got -2 at node 1\."),
            ({"y": torch.tensor([0, 5, 1]), "num_classes": 2}, r"`y` must hold classes below 2\. Got 5 at node 1\."),
            ({"num_classes": 10**6}, r"`num_classes` must be at most 10,000 for 3 nodes\. Got 1,000,000\."),
            ({"num_classes": 0}, r"`num_classes` must be an integer of at least 1\. Got 0\."),
            ({"num_classes": 2.0}, r"`num_classes` must be an integer of at least 1\. Got 2\.0\."),
            ({"train_mask": torch.tensor([0, 1, 0])}, r"`train_mask` must be a boolean tensor\. Got int64\."),
            ({"val_mask": mask(1, 0)}, r"`val_mask` must have one entry for each of the 3 nodes\. Got 2\."),
            (
                {"test_mask": mask(0, 0, 1)[:, None]},
                r"`test_mask` must have shape \[3\] \(pick one split: .*\)",
            ),
            ({"val_mask": mask(1, 1, 0)}, r"`train_mask` and `val_mask` must not overlap\. Got node 0 in both\."),
            ({"test_mask": mask(1, 0, 1)}, r"`train_mask` and `test_mask` must not overlap\. Got node 0 in both\."),
            ({"test_mask": mask(0, 1, 1)}, r"`val_mask` and `test_mask` must not overlap\. Got node 1 in both\."),
            ({"train_mask": mask(0, 0, 0)}, r"`train_mask` must pick at least one labelled node\. Got none\."),
            ({"y": None}, r"`train_mask` must come with labels `y`\. Got none\."),
            (
                {"y": torch.tensor([-1, 1, 1])},
                r"`train_mask` must pick labelled nodes\. Got node 0, whose label is -1\.",
            ),
            ({"y": torch.tensor([0, -1, 1])}, r"`val_mask` must pick labelled nodes\. Got node 1, whose label is -1\."),
            ({"edge_index": torch.tensor([[0], [3]])}, r"`dst` must hold node ids from 0 to 2\. Got 3\."),
            ({"edge_index": torch.tensor([[0.0], [1.0]])}, r"`src` must hold integers\. Got float32\."),
            ({"edge_index": None}, r"`data` must have `edge_index`\. Got none\."),
            (
                {"edge_weight": torch.tensor([1.0])},
                r"`edge_weight` must have one entry for each of the 3 edges\. Got 1\.",
            ),
        ],
    )
    def test_names_the_offending_value(self, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}"):
            check_data(make(**changes))

    def test_an_empty_graph(self) -> None:
        with pytest.raises(ValueError, match=r"`data` must have at least one node\. Got 0\."):
            check_data(Data(edge_index=torch.zeros(2, 0).long(), num_nodes=0))

    def test_something_else(self) -> None:
        with pytest.raises(ValueError, match=r"`data` must be a PyG Data\. Got dict\."):
            check_data({"x": 1})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"`data` must have at least one edge type\. Got none\."):
            check_data(HeteroData())


def example() -> Data:
    masks = {name: torch.arange(4) == place for place, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return Data(x=torch.arange(8.0).view(4, 2), edge_index=edge_index, y=torch.tensor([0, 1, 0, 1]), **masks)


def test_equal_data_have_equal_digests() -> None:
    data = example()
    data.notes = ["anything"]
    data.edge_index = data.edge_index.t().contiguous().t()  # other strides
    assert digest_data(data) == digest_data(example())


@pytest.mark.parametrize("name", ["x", "edge_index", "y", "train_mask"])
def test_one_value_makes_another(name: str) -> None:
    data = example()
    data[name] = data[name].clone()
    data[name].view(-1)[3] = not data[name].view(-1)[3]
    assert digest_data(data) != digest_data(example())


def test_sparse_features_count_entry_by_entry() -> None:
    one, other = (example() for _ in range(2))
    ptr, columns = torch.tensor([0, 1, 2, 2, 2]).numpy(), torch.tensor([0, 1]).numpy()
    one.x = csr_tensor(ptr, columns, torch.tensor([1.0, 2.0]).numpy(), (4, 2))
    other.x = csr_tensor(ptr, columns[::-1].copy(), torch.tensor([1.0, 2.0]).numpy(), (4, 2))
    assert len({digest_data(one), digest_data(other), digest_data(example())}) == 3


def test_large_arrays_count_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 16)
    monkeypatch.setattr(module, "NUM_BLOCKS", 3)
    monkeypatch.setattr(module, "BLOCK", 4)
    seen = []
    for place in range(8):
        data = example()
        data.x.view(-1)[place] = -1
        seen.append(digest_data(data) != digest_data(example()))
    assert seen == [place in (0, 3, 7) for place in range(8)]  # bytes 0–3, 14–17, 28–31


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
        ValueError, match=r"must be a weight, .*edge_attr` leaves it out, .*\)\. Got float32 of shape \[2, 3\]"
    ):
        load_dataset(data)
    data["author", "writes", "paper"].edge_attr = torch.tensor([2.0, 3.0])
    assert load_dataset(data).edge_weight.tolist() == [2, 3, 1]
