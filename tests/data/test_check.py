"""check_data accepts sound data and names what is wrong with its place; digests tell datasets apart."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gpnn.data import check as module
from gpnn.data import check_data
from gpnn.data.check import digest_data
from gpnn.data.features import csr_tensor

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
            ({"x": sparse_nan()}, r"`x` must be finite\. Got nan at node 2, column 4\."),
            ({"x": torch.eye(3).long()}, r"`x` must be floating point \(`x\.float\(\)`\)\. Got int64\."),
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
