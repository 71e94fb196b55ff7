"""LinearProblem: the ridge regression of LinearColumns over its training nodes, solved by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.kernels import Operator, aggregate
from gpnn.nn.column_fitted import Columns, LinearColumns
from gpnn.nn.column_model import to_scipy
from gpnn.nn.layers import feature_operator

MEMORY = 2e8  # bytes of the pairs that L-BFGS remembers, about
MOST_STEPS = 50  # of a setting, whose weights start from those of the one before
TOLERANCE = 1e-5  # of the largest entry of the gradient
PROJECTIONS = 16  # random directions that the size of a block is measured in


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """The rows that the training nodes need and the columns that are not zero in them.

    Sparse columns of neighbours are materialised for the training nodes where that takes fewer multiplications than
    the product with all features that these nodes read: [X, A_1 X, …] as the features of a model without relations.

    Attributes:
        model: as large as these columns; its weights are the solution.
        columns: of the training nodes.
        active: features among those of the whole model, `[F']`.
        nodes: the training nodes, `[M]`.
        num_blocks: of the whole model's blocks, those that count: 1 for X alone, R + 1 with its means.
    """

    model: LinearColumns
    columns: Columns
    active: Tensor
    nodes: Tensor
    num_blocks: int = 1

    @classmethod
    def of(cls, model: LinearColumns, columns: Columns, nodes: Tensor) -> LinearProblem:
        """The problem of a model whose `columns` are those of every node; without means it is that of X alone."""
        dense, active, num_blocks = columns.dense[nodes], torch.arange(len(model.weight)), 1 + len(columns.means)
        if columns.x is None:
            return cls(_smaller(model, 0, 0), Columns(None, None, (), dense), active, nodes)
        place = nodes.cpu().numpy()
        means = [to_scipy(each)[place] for each in columns.means]
        needed = np.unique(np.concatenate([place, *(each.indices for each in means)]))
        x, active = _rows(columns.x, needed)
        means, own = [each[:, needed] for each in means], np.searchsorted(needed, place)
        if (joined := _join(x, own, means)) is not None:
            small = _smaller(model, num_blocks * len(active), 0)
            return cls(small, Columns(joined, None, (), dense), active, nodes, num_blocks)
        operators = tuple(_operator(each, x.device) for each in means)
        found = Columns(x, torch.from_numpy(own).to(x.device), operators, dense)
        return cls(_smaller(model, len(active), len(means)), found, active, nodes, num_blocks)

    @property
    def is_joined(self) -> bool:
        """Whether the neighbours' columns are materialised."""
        return self.columns.x is not None and self.columns.own is None

    def block_sizes(self, whole: LinearColumns, seed: int) -> Tensor:
        """The root mean square of the rows of X and of each A_r X, `[R + 1]`, or of X alone.

        They are those of random projections where these rows are not materialised.
        """
        self._load(whole)
        x = self.columns.x
        assert x is not None
        if self.is_joined:
            column = x.col_indices().long()
            square = (x.values() * self.model.get_buffer("x_scale")[column]).square()
            blocks = square.new_zeros(self.num_blocks).index_add_(0, column // max(1, len(self.active)), square)
            return (blocks / max(1, len(x))).sqrt()
        assert self.columns.own is not None
        generator = torch.Generator().manual_seed(seed)
        directions = torch.randn(len(self.active), PROJECTIONS, generator=generator).to(x.device)
        sent = self.model.send(x, directions)
        rows = [sent[self.columns.own], *(aggregate(each, sent) for each in self.columns.means)]
        return torch.stack([each.square().mean().sqrt() for each in rows])

    def solve(self, whole: LinearColumns, loss: Callable[[Tensor], Tensor], strength: float) -> tuple[float, float]:
        """Put the weights of least `loss + ½‖w‖² / (strength · M)` into the whole model; loss and gradient's norm.

        Weights start from the model's; those of columns that its scales leave out are zero.

        Args:
            whole: the model of all columns; its scales say which count.
            loss: of the scores of the training nodes, `[M, C]`.
            strength: C of a support vector machine or of scikit-learn's `LogisticRegression`.
        """
        self._load(whole)
        decay = 1 / (strength * len(self.nodes))
        weights = [self.model.weight, self.model.dense_weight]
        parameters = [each for each in (*weights, self.model.bias) if each.numel()]
        pairs = int(np.clip(MEMORY / (8 * sum(each.numel() for each in parameters)), 3, 10))
        optimizer = torch.optim.LBFGS(
            parameters,
            max_iter=MOST_STEPS,
            history_size=pairs,
            tolerance_grad=TOLERANCE,
            tolerance_change=TOLERANCE / 100,  # the first step is tiny, and must not be the last
            line_search_fn="strong_wolfe",
        )
        errors: list[float] = []

        def objective() -> Tensor:
            optimizer.zero_grad()
            error = loss(self.model(self.columns))
            value = error + decay / 2 * sum((each.square().sum() for each in weights), error.new_zeros(()))
            value.backward()
            errors.append(float(error.detach()))
            return value

        optimizer.step(objective)
        objective()
        self._store(whole)
        return errors[-1], float(
            torch.cat([each.grad.flatten() for each in parameters if each.grad is not None]).norm()
        )

    @torch.no_grad()
    def _load(self, whole: LinearColumns) -> None:
        """Weights and scales of the whole model; weights that its scales leave out are zero."""
        own, scale = self.model, whole.get_buffer("x_scale")[self.active]
        for name in ("mean", "scale"):
            own.get_buffer(name).copy_(whole.get_buffer(name))
        own.dense_weight.copy_(whole.dense_weight * (own.get_buffer("scale") != 0)[:, None])
        own.bias.copy_(whole.bias)
        if self.columns.x is None:
            return
        blocks = whole.get_buffer("block_scale")[: self.num_blocks]
        weight = self._blocks(whole)[self.active] * (blocks != 0)[:, None]  # [F', R + 1, C]
        if self.is_joined:
            own.weight.copy_(weight.transpose(0, 1).flatten(0, 1))
            own.get_buffer("x_scale").copy_(torch.outer(blocks, scale).flatten())
            return
        own.weight.copy_(weight.flatten(1))
        own.get_buffer("block_scale").copy_(blocks)
        own.get_buffer("x_scale").copy_(scale)
        own.get_buffer("x_mean").copy_(whole.get_buffer("x_mean")[self.active])

    @torch.no_grad()
    def _store(self, whole: LinearColumns) -> None:
        whole.dense_weight.copy_(self.model.dense_weight)
        whole.bias.copy_(self.model.bias)
        whole.weight.zero_()
        if self.columns.x is None:
            return
        shape = (self.num_blocks, len(self.active)) if self.is_joined else (len(self.active), self.num_blocks)
        weight = self.model.weight.view(*shape, -1)
        self._blocks(whole)[self.active] = weight.transpose(0, 1) if self.is_joined else weight

    def _blocks(self, whole: LinearColumns) -> Tensor:
        """The weights of the whole model that count, a view `[F, R + 1, C]`."""
        return whole.weight.unflatten(1, (-1, whole.out_channels))[:, : self.num_blocks]


def _smaller(model: LinearColumns, num_features: int, num_relations: int) -> LinearColumns:
    """A model with the dense columns and the outputs of this one."""
    own = LinearColumns(num_features, num_relations, len(model.dense_weight), model.out_channels)
    return own.to(model.bias.device)


def _join(x: Tensor, own: np.ndarray, means: list[Any]) -> Tensor | None:
    """[X, A_1 X, …] of the training nodes, `[M, (R + 1) F']`; None where X is dense, or X W first takes less."""
    from scipy.sparse import hstack

    operator = feature_operator(x)
    if operator is None:
        return None
    rows = to_scipy(operator)
    length = np.diff(rows.indptr)
    most = len(own) * rows.shape[1]
    entries = length[own].sum() + sum(min(most, length[each.indices].sum()) for each in means)
    if entries > rows.nnz * (1 + len(means)):
        return None
    blocks = [rows[own], *(each @ rows for each in means)]
    return from_scipy(hstack(blocks, "csr"), sparse=True).to(x.device)


def _rows(x: Tensor, needed: np.ndarray) -> tuple[Tensor, Tensor]:
    """Some rows of features, without the columns in which they are zero where they are sparse, and the columns left."""
    operator = feature_operator(x)
    if operator is None:
        return x[torch.from_numpy(needed).to(x.device)], torch.arange(x.shape[1])
    rows = to_scipy(operator)[needed]
    active = np.unique(rows.indices)
    return from_scipy(rows[:, active], sparse=True).to(x.device), torch.from_numpy(active).long()


def _operator(matrix: object, device: torch.device) -> Operator:
    return feature_operator(from_scipy(matrix, sparse=True)).to(device)  # type: ignore[union-attr]
