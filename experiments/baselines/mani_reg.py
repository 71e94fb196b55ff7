"""ManiReg: least squares with a penalty on differences along edges (Belkin, Niyogi and Sindhwani 2006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.conjugate_gradient import conjugate_gradient
from experiments.baselines.selection import as_choices, choose_best
from experiments.baselines.softmax_regression import spread
from experiments.baselines.visible import feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data

FLOOR = 1e-3  # the least a regression may say of a class before rows are scaled to one


def mani_reg(
    data: Data,
    *,
    seed: int = 0,
    ridge: float | Sequence[float] = (0.05, 0.5, 5.0),
    smoothness: float | Sequence[float] = (0.005, 0.05, 0.5),
) -> Tensor:
    """Class probabilities by linear regression that is smooth over the graph, `[N, C]`.

    Laplacian regularised least squares (Belkin et al. 2006, section 4.2) with a linear function of the features:

        min_W  Σ_train ‖x_i W − y_i‖² + ridge ‖W‖² + smoothness Σ_edges a_ij ‖x_i W − x_j W‖²

    whose normal equations (X_lᵀ X_l + ridge I + smoothness Xᵀ L X) W = X_lᵀ Y_l are solved by conjugate gradients, so
    that nothing but W is dense. The regression estimates p(c | x): it is cut off at small values and scaled to one.

    Args:
        data: with features, scaled here to rows of norm one.
        seed: not used; the solution is unique.
        ridge: γ_A · l there, or several to choose from on the validation nodes.
        smoothness: γ_I · l / (l + u)² there, or several to choose from.
    """
    x = _unit_rows(feature_matrix(data, "mani_reg"))
    nodes, classes = labelled(data, "train")
    known, column = np.unique(classes, return_inverse=True)
    target = np.zeros((len(nodes), len(known)))
    target[np.arange(len(nodes)), column] = 1
    adjacency = neighbours(data).astype(np.float64)

    def candidates() -> Iterator[np.ndarray]:
        for penalty in as_choices(ridge):
            for smooth in as_choices(smoothness):
                weight = _solve(x, adjacency, nodes, target, penalty, smooth)
                scores = np.maximum(np.asarray(x @ weight), FLOOR)
                yield spread(scores / scores.sum(1, keepdims=True), known, data.num_classes)

    return torch.from_numpy(choose_best(candidates(), data)).float()


def _solve(
    x: scipy.sparse.csr_matrix,
    adjacency: scipy.sparse.csr_matrix,
    nodes: np.ndarray,
    target: np.ndarray,
    ridge: float,
    smoothness: float,
) -> np.ndarray:
    """The weights W, `[F, C]`."""
    rows, turned = x[nodes], x.T.tocsr()
    rows_turned = rows.T.tocsr()
    degree = np.asarray(adjacency.sum(axis=1)).ravel()

    def apply(weight: np.ndarray) -> np.ndarray:
        values = x @ weight
        rough = degree[:, None] * values - adjacency @ values
        return rows_turned @ (rows @ weight) + ridge * weight + smoothness * (turned @ rough)

    diagonal = rows_turned.power(2).sum(axis=1) + smoothness * (turned.power(2) @ degree)[:, None] + ridge
    return conjugate_gradient(apply, np.asarray(rows_turned @ target), np.asarray(diagonal).ravel())


def _unit_rows(x: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """Rows of norm one, and a last column of ones for the bias; a row of zeros stays."""
    from scipy.sparse import csr_matrix, diags_array, hstack

    norm = np.sqrt(np.asarray(x.power(2).sum(axis=1), np.float64)).ravel()
    scaled = diags_array(1 / np.where(norm > 0, norm, 1)) @ x.astype(np.float64)
    return csr_matrix(hstack([scaled, np.ones((x.shape[0], 1))]))
