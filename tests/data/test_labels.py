"""Labels: several per node are accepted in every form they come in, and what is wrong is named with its place."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gpnn import load_dataset
from gpnn.data import check_data
from gpnn.data.labels import check_labels, check_names, check_trainable, labelled_nodes
from tests.oracle.parameters import rest_thorough

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


def test_numbers_that_are_not_whole_are_a_regression() -> None:
    data = check_data(make(torch.tensor([0.5, NAN, -1.0]), num_classes=3))
    assert (data.task, data.y.dtype) == ("regression", torch.float64)
    assert labelled_nodes(data.y).tolist() == [True, False, True]
    assert "num_classes" not in data


def test_whole_numbers_are_a_regression_where_one_is_wanted() -> None:
    data = check_data(make(torch.tensor([7, -1, 12])), "regression")
    assert data.y.tolist() == [7.0, -1.0, 12.0]
    assert check_data(data).y.dtype == torch.float64  # it stays one


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
            {"task": "classification"},
            r"`y` must hold classes, whole .* GPNNRegressor, .*\. Got 0\.53 at node 2\.",
        ),
        (torch.tensor([0.5, NAN, float("inf")]), {}, r"`y` must hold finite numbers, .*\. Got inf at node 2\."),
        (torch.zeros(3, 2), {"task": "regression"}, r"`y` of a regression must have one number .*\. Got 2 columns\."),
        (
            torch.tensor([0.5, NAN, 1.0]),
            {"train_mask": torch.tensor([True, True, False])},
            r"`train_mask` must pick labelled nodes\. Got node 1, whose label is NaN\.",
        ),
        (torch.tensor([[0.0], [float("inf")], [1.0]]), {}, r"`y` must hold classes, whole .*\. Got inf at node 1\."),
        (torch.tensor([0.0, 1e30, 1.0]), {}, r"classes below 1,000,000"),
        (torch.zeros(3).bool(), {}, r"`y` must hold integer classes, -1 where unknown\. Got bool\."),
    ],
)
def test_names_the_offending_value(y: torch.Tensor, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_data(make(y, **more))


@pytest.mark.parametrize("names", [["1.5", "red"], [1, 2, 3], ["1", "2.0"], [True, False], ["2024-01-01"], [10**400]])
def test_names_of_classes(names: list[Any]) -> None:
    check_names(names, "`y`")


class TestTrainable:
    def test_one_example_a_class(self) -> None:
        """NELL trains on 105 nodes of as many classes, out of 65,755."""
        y = torch.full((65_755,), -1)
        y[:105] = torch.arange(0, 210, 2)
        check_trainable(y)
        check_trainable(torch.where(y < 0, -1, y // 2), np.array([f"class {number}" for number in range(105)]))

    def test_few_classes_and_small_graphs(self) -> None:
        check_trainable(torch.arange(20))
        check_trainable(torch.arange(50).repeat(2))

    def test_few_numbers_that_lie_far_apart(self) -> None:
        y = torch.full((10_000,), -1)
        y[:40] = torch.arange(40)
        with pytest.raises(ValueError, match=r"Got 40 different labels on 40 labelled nodes\."):
            check_trainable(y, [number * 137 for number in range(40)])
        check_trainable(y, list(range(1000, 1040)))

    def test_several_labels_a_node(self) -> None:
        check_trainable(torch.eye(30))


@pytest.mark.parametrize("name", ["digits", "cora", "citeseer", "pubmed", "planted", "chain"])
def test_datasets(name: str, data_root: Path) -> None:
    check_trainable(load_dataset(name, root=data_root).y)


@pytest.mark.parametrize("rate", rest_thorough([0.1, 0.01, 0.001], [0.01]))
def test_nell(rate: float, data_root: Path) -> None:
    data = load_dataset("nell", root=data_root, rate=rate)
    check_trainable(data.y)
    check_trainable(torch.where(data.train_mask, data.y, -1))
