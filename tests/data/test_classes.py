"""Names of classes and numbers of them: what is refused as a measurement, and what is not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpnn import load_dataset
from gpnn.data.classes import check_names, check_trainable


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


@pytest.mark.parametrize("rate", [0.1, 0.01, 0.001])
def test_nell(rate: float, data_root: Path) -> None:
    data = load_dataset("nell", root=data_root, rate=rate)
    check_trainable(data.y)
    check_trainable(torch.where(data.train_mask, data.y, -1))
