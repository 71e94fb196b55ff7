"""LinearProblem: the ridge regression of LinearColumns over its training nodes, solved by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gpnn.data.features import from_scipy
from gpnn.kernels import Operator, aggregate
from gpnn.nn.columns.linear_columns import Columns, LinearColumns
from gpnn.nn.columns.relations import to_scipy
from gpnn.nn.layers import feature_operator

MEMORY = 2e8  # bytes of the pairs that L-BFGS remembers, about
MOST_STEPS, FEW_STEPS = 50, 12  # of a setting, whose weights start from those of the one before; of a large problem
LARGE = 1e8  # multiplications of a step from which a problem is large: it is solved less exactly
TOLERANCE = 1e-5  # of the largest entry of the gradient
PROJECTIONS = 16  # random directions that the size of a block is measured in


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """The rows that the training nodes need and the columns that are not zero in them.

    Attributes:
        model: as large as these columns; its weights are the solution.
        columns: of the training nodes.
        active: features among those of the whole model, `[F']`.
        nodes: the training nodes, `[M]`.
    """

    model: LinearColumns
    columns: Columns
    active: Tensor
    nodes: Tensor

    @classmethod
    def of(cls, model: LinearColumns, columns: Columns, nodes: Tensor) -> LinearProblem:
        """The problem of a model whose `columns` are those of every node."""
        dense, active = columns.dense[nodes], torch.arange(len(model.weight))
        if columns.x is None:
            return cls(_smaller(model, active), Columns(None, None, (), dense), active, nodes)
        place = nodes.cpu().numpy()
        means = [to_scipy(each)[place] for each in columns.means]
        needed = np.unique(np.concatenate([place, *(each.indices for each in means)]))
        x, active = _rows(columns.x, needed)
        operators = [_operator(each[:, needed], x.device) for each in means]
        own = torch.from_numpy(np.searchsorted(needed, place)).to(x.device)
        return cls(_smaller(model, active), Columns(x, own, tuple(operators), dense), active, nodes)

    @property
    def is_large(self) -> bool:
        """Whether a step takes long, so that fewer are taken."""
        x, width = self.columns.x, self.model.weight.shape[1]
        entries = 0 if x is None else x.numel() if x.layout == torch.strided else x.values().numel()
        return entries * width + self.columns.dense.numel() * self.model.out_channels > LARGE

    def block_sizes(self, whole: LinearColumns, seed: int) -> Tensor:
        """The root mean square of the rows of X and of each A_r X, `[R + 1]`, by random projections."""
        self._load(whole)
        x = self.columns.x
        assert x is not None
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
            max_iter=FEW_STEPS if self.is_large else MOST_STEPS,
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
        own = self.model
        for name in ("block_scale", "mean", "scale"):
            own.get_buffer(name).copy_(whole.get_buffer(name))
        for name in ("x_mean", "x_scale"):
            own.get_buffer(name).copy_(whole.get_buffer(name)[self.active])
        blocks = (own.get_buffer("block_scale") != 0).repeat_interleave(own.out_channels)
        own.weight.copy_(whole.weight[self.active] * blocks)
        own.dense_weight.copy_(whole.dense_weight * (own.get_buffer("scale") != 0)[:, None])
        own.bias.copy_(whole.bias)

    @torch.no_grad()
    def _store(self, whole: LinearColumns) -> None:
        whole.weight.zero_()
        whole.weight[self.active] = self.model.weight
        whole.dense_weight.copy_(self.model.dense_weight)
        whole.bias.copy_(self.model.bias)


def _smaller(model: LinearColumns, active: Tensor) -> LinearColumns:
    """A model like this one with some of its features."""
    num_relations = len(model.get_buffer("block_scale")) - 1
    own = LinearColumns(len(active), num_relations, len(model.dense_weight), model.out_channels)
    return own.to(model.bias.device)


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
