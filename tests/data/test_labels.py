"""Labels: several a node are taken in every form they come in, and what is wrong is named with its place."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from gpnn.data import check_data
from gpnn.data.labels import check_labels, labelled_nodes

NAN = float("nan")


@pytest.mark.parametrize(
    "y",
    [
        torch.tensor([[1.0, 0.0], [1.0, 1.0], [NAN, NAN]]),
        torch.tensor([[1, 0], [1, 1], [-1, -1]]),
        torch.tensor([[1.0, 0.0], [1.0, 1.0], [-1.0, NAN]], dtype=torch.float64),
    ],
)
def test_unlabelled_rows_become_minus_one(y: torch.Tensor) -> None:
    before = y.clone()
    labels = check_labels(y, 3)
    assert labels.dtype == torch.float32
    assert labels.tolist() == [[1, 0], [1, 1], [-1, -1]]
    assert labelled_nodes(labels).tolist() == [True, True, False]
    assert torch.equal(y.nan_to_num(7), before.nan_to_num(7))


def test_booleans_and_nodes_without_any_label() -> None:
    labels = check_labels(torch.tensor([[True, False], [False, False]]), 2)
    assert labels.tolist() == [[1, 0], [0, 0]]
    assert labelled_nodes(labels).all()


def make(y: torch.Tensor, **more: Any) -> Data:
    return Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, y=y, **more)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.bfloat16])
def test_whole_floating_point_numbers_are_classes_and_nan_is_none(dtype: torch.dtype) -> None:
    for y in (torch.tensor([2.0, NAN, -1.0], dtype=dtype), torch.tensor([[2.0], [NAN], [-1.0]], dtype=dtype)):
        labels = check_labels(y, 3)
        assert labels.dtype == torch.int64
        assert labels.tolist() == [2, -1, -1]


def test_classes_are_columns() -> None:
    data = check_data(make(torch.zeros(3, 5), train_mask=torch.ones(3).bool()))
    assert data.num_classes == 5


@pytest.mark.parametrize(
    ("y", "more", "message"),
    [
        (torch.tensor([[0, 1], [2, 0], [0, 0]]), {}, r"zeros and ones, .*\. Got 2 at node 1, label 0\."),
        (torch.tensor([[0, 0.5], [1, 0], [0, 0]]), {}, r"zeros and ones, .*\. Got 0\.5 at node 0, label 1\."),
        (torch.tensor([[0, 1], [1, 0], [0, NAN]]), {}, r"all labels .* or none\. Got nan beside .* node 2, label 1\."),
        (torch.tensor([[0, 1], [1, 0], [-1, 0]]), {}, r"all labels .* or none\. Got -1 beside .* node 2, label 0\."),
        (torch.tensor([0, 1 << 40, 0]), {}, r"classes below 1,000,000, .*\. Got 1099511627776 at node 1\."),
        (torch.zeros(2, 4), {}, r"`y` must have one row of labels for each of the 3 nodes\. Got 2\."),
        (torch.zeros(3, 4), {"num_classes": 3}, r"`num_classes` must be the 4 columns of `y`\. Got 3\."),
        (
            torch.tensor([[0, 1], [1, 0], [-1, -1]]),
            {"train_mask": torch.tensor([True, False, True])},
            r"`train_mask` must pick labelled nodes\. Got node 2, whose label is -1\.",
        ),
        (
            torch.tensor([0.0, NAN, 0.53]),
            {},
            r"`y` must hold classes, whole .* not supported yet\. Got 0\.53 at node 2\.",
        ),
        (torch.tensor([[0.0], [float("inf")], [1.0]]), {}, r"`y` must hold classes, whole .*\. Got inf at node 1\."),
        (torch.tensor([0.0, 1e30, 1.0]), {}, r"classes below 1,000,000"),
        (torch.zeros(3).bool(), {}, r"`y` must hold integer classes, -1 where unknown\. Got bool\."),
    ],
)
def test_names_the_offending_value(y: torch.Tensor, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_data(make(y, **more))
