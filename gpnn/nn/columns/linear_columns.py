"""LinearColumns: scores that are linear in a node's columns and in the means of its neighbours'."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gpnn.kernels import Operator, aggregate
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
