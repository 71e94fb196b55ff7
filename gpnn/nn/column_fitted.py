"""What is fitted to columns: LinearColumns, and Trees, an ensemble of decision trees as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpnn.kernels import Operator, aggregate
from gpnn.kernels.autograd import constants, is_plain
from gpnn.nn.layers import feature_operator


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of some nodes.

    Attributes:
        x: features of the nodes that send, `[S, F]`, where these are many; None where they are among `dense`.
        own: place of each node among the senders, `[n]`; None: they are the same.
        means: the mean over the neighbours in each relation, `[n, S]`.
        dense: all other columns, `[n, D]`.
    """

    x: Tensor | None
    own: Tensor | None
    means: tuple[Operator, ...]
    dense: Tensor


class LinearColumns(nn.Module):
    """scores = b + Z V + s_0 X W_0 + Σ_r s_r A_r X W_r, where A_r is the mean over the neighbours in relation r.

    The product X W comes first, so that columns which are mostly zero are never aggregated. Dense columns, Z and a
    dense X, are standardised by `mean` and `scale`, a sparse X by its scale; a scale of zero leaves a column or a block
    out.

    Args:
        in_channels: number of features F of X.
        num_relations: number of relations R.
        num_dense: number of dense columns D.
        out_channels: number of outputs C.
    """

    def __init__(self, in_channels: int, num_relations: int, num_dense: int, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.weight = nn.Parameter(torch.zeros(in_channels, (num_relations + 1) * out_channels))
        self.dense_weight = nn.Parameter(torch.zeros(num_dense, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.register_buffer("block_scale", torch.ones(num_relations + 1))
        for name, size in (("x_", in_channels), ("", num_dense)):
            self.register_buffer(f"{name}mean", torch.zeros(size))
            self.register_buffer(f"{name}scale", torch.ones(size))

    def forward(self, columns: Columns) -> Tensor:
        """The scores, `[n, C]`."""
        scores = self.bias + (columns.dense - self.get_buffer("mean")) * self.get_buffer("scale") @ self.dense_weight
        if columns.x is None:
            return scores
        own, *others = self.send(columns.x, self.weight).split(self.out_channels, 1)  # [S, C] each
        scale = self.get_buffer("block_scale")
        scores = scores + scale[0] * (own if columns.own is None else own[columns.own])
        for number, (operator, block) in enumerate(zip(columns.means, others), 1):
            scores = scores + scale[number] * aggregate(operator, block.contiguous())
        return scores

    def send(self, x: Tensor, weight: Tensor) -> Tensor:
        """The product X W, `[S, d]`, of scaled columns; those of a dense X are centred."""
        operator, scale = feature_operator(x), self.get_buffer("x_scale")
        if operator is not None:
            return aggregate(operator, scale[:, None] * weight)
        return (x.to(weight.dtype) - self.get_buffer("x_mean")) * scale @ weight


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
