import pytest
import torch

from gpnn.nn.column_fitted import Trees


def stump(column: int, threshold: float, low: float, high: float) -> dict[str, torch.Tensor]:
    """x[column] <= threshold ? low : high."""
    return {
        "feature": torch.tensor([[column, 0, 0]]),
        "threshold": torch.tensor([[threshold, 0.0, 0.0]]),
        "left": torch.tensor([[1, 0, 0]]),
        "right": torch.tensor([[2, 0, 0]]),
        "value": torch.tensor([[9.0, low, high]]),
    }


def test_a_row_falls_into_one_leaf_of_each_tree():
    trees = Trees(4, 5)
    trees.store(stump(1, 0.5, -1.0, 2.0), torch.tensor([1]))
    rows = torch.tensor([[9.0, 0.5], [0.0, 0.6]])
    assert trees(rows, 2).tolist() == [[0.0, -1.0], [0.0, 2.0]]
    trees.clear()
    assert trees(rows, 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("name", "value"), [("feature", 7), ("feature", -1), ("left", 9), ("right", 0), ("right", -2), ("left", -1)]
)
def test_arrays_that_would_read_elsewhere_are_refused(name, value):
    trees = Trees(1, 3)
    arrays = stump(0, 0.5, -1.0, 2.0)
    arrays[name][0, 0] = value
    trees.store(arrays, torch.tensor([0]))
    with pytest.raises(ValueError, match="Trees must read columns, nodes and outputs that there are"):
        trees(torch.zeros(2, 3), 1)
