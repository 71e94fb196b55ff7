"""Trees: an ensemble of decision trees as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from gpnn.kernels.autograd import constants, is_plain


class Trees(nn.Module):
    """The sum of the leaves that a row of columns falls into, per output.

    Its arrays have the size of the largest ensemble that may be stored; `count` says how many trees there are.
    Rows of the arrays are trees, their columns nodes, the first one the root; `left` is 0 at a leaf.

    Args:
        num_trees: the most trees T.
        num_nodes: the most nodes of a tree L.
    """

    ARRAYS: Mapping[str, torch.dtype] = {
        "feature": torch.int32,
        "threshold": torch.float64,
        "left": torch.int32,
        "right": torch.int32,
        "value": torch.float64,
    }

    def __init__(self, num_trees: int, num_nodes: int) -> None:
        super().__init__()
        for name, dtype in self.ARRAYS.items():
            self.register_buffer(name, torch.zeros(num_trees, num_nodes, dtype=dtype))
        self.register_buffer("output", torch.zeros(num_trees, dtype=torch.int32))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def store(self, arrays: Mapping[str, Tensor], output: Tensor) -> None:
        """Take other trees: arrays `[t, l]` that are at most as large, and the output of each tree, `[t]`."""
        self.clear()
        for name in self.ARRAYS:
            self.get_buffer(name)[: len(output), : arrays[name].shape[1]] = arrays[name]
        self.get_buffer("output")[: len(output)] = output
        self.get_buffer("count").fill_(len(output))

    def clear(self) -> None:
        """Have no tree."""
        for buffer in self.buffers():
            buffer.zero_()

    def forward(self, columns: Tensor, num_outputs: int) -> Tensor:
        """The sums, float64 on the CPU, `[N, num_outputs]`, of columns `[N, D]`.

        Raises:
            ValueError: when a tree reads another column, node or output than there is.
        """
        from gpnn.kernels.cpu import launch, sum_trees

        with constants():
            count = int(self.get_buffer("count"))
            arrays = {name: self.get_buffer(name)[:count].cpu() for name in (*self.ARRAYS, "output")}
            if count:
                _check(arrays, columns.shape[1], num_outputs)
        if is_plain():
            return _sum_plain(columns, num_outputs, **arrays)
        out = torch.zeros(len(columns), num_outputs, dtype=torch.float64)
        rows = columns.detach().cpu().contiguous()
        launch(sum_trees, len(out), len(out) * count * 8, rows, *arrays.values(), out)
        return out


def _sum_plain(
    columns: Tensor,
    num_outputs: int,
    *,
    feature: Tensor,
    threshold: Tensor,
    left: Tensor,
    right: Tensor,
    value: Tensor,
    output: Tensor,
) -> Tensor:
    """The sums by torch's own operations: all rows take a step down all trees, until each is at a leaf."""
    with constants():
        feature, left, right, output = (each.long() for each in (feature, left, right, output))
        tree, steps = torch.arange(len(output)), _depth(left, right)
    node = torch.zeros(len(columns), len(output), dtype=torch.int64)  # [N, T]
    for _ in range(steps):
        goes_left = columns.gather(1, feature[tree, node]) <= threshold[tree, node]
        child = torch.where(goes_left, left[tree, node], right[tree, node])
        node = torch.where(left[tree, node] == 0, node, child)
    out = torch.zeros(len(columns), num_outputs, dtype=value.dtype)
    return out.index_add(1, output, value[tree, node])


def _depth(left: Tensor, right: Tensor) -> int:
    """The most steps from a root to a leaf; children come after their parents."""
    depth = torch.zeros_like(left)
    for node in range(left.shape[1]):
        for child in (left[:, node], right[:, node]):
            depth.scatter_(1, child[:, None], torch.where(child > 0, depth[:, node] + 1, 0)[:, None])
    return int(depth.max())


def _check(arrays: Mapping[str, Tensor], num_columns: int, num_outputs: int) -> None:
    """Refuse arrays of a damaged file that would read elsewhere, or walk in circles: children follow parents."""
    feature, output, left = arrays["feature"], arrays["output"], arrays["left"]
    children, own = torch.stack([left, arrays["right"]]), torch.arange(left.shape[1])
    astray = ((children <= own) | (children >= left.shape[1])) & (left != 0)
    inside = 0 <= int(feature.min()) <= int(feature.max()) < num_columns
    if bool(astray.any()) or not inside or not 0 <= int(output.min()) <= int(output.max()) < num_outputs:
        raise ValueError("Trees must read columns, nodes and outputs that there are. Got others.")
