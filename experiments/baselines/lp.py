"""LP: harmonic functions, the label propagation of Zhu, Ghahramani and Lafferty (2003)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.conjugate_gradient import conjugate_gradient
from experiments.baselines.visible import class_shares, labelled, neighbours

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


def lp(
    data: Data, *, seed: int = 0, tolerance: float = 1e-3, class_mass: bool = True, rounds: int | None = None
) -> Tensor:
    """The chance that a random walk from each node first meets a training node of each class, `[N, C]`.

    The harmonic function of Zhu et al. 2003, section 2: f = D⁻¹ A f at unlabelled nodes and the label at training
    nodes; that is (D_uu − A_uu) f_u = A_ul y_l, solved by conjugate gradients over sparse matrices. A node that no
    training node reaches gets the classes' shares among the training nodes. With few labels on a large graph f is
    almost constant, and only the class mass normalisation of section 4 there (on by default) makes its differences
    count.

    Args:
        data: edges and labels; features are not used.
        seed: not used; the solution is unique.
        tolerance: relative residual of the solution.
        class_mass: scale the classes so that their masses are as their shares of the training nodes.
        rounds: in place of the solution, f after so many rounds of f ← D⁻¹ A f from zero, the training nodes held
            at their labels: the iteration that the solution is the limit of.
    """
    adjacency = neighbours(data)
    shares = class_shares(data)
    nodes, classes = labelled(data, "train")
    known, column = np.unique(classes, return_inverse=True)
    target = np.zeros((len(nodes), len(known)))
    target[np.arange(len(nodes)), column] = 1
    unknown = _reached(adjacency, nodes)
    scores = np.tile(shares[known], (data.num_nodes, 1))
    scores[nodes] = target
    if len(unknown):
        if rounds is None:
            found = harmonic(adjacency, unknown, nodes, target, tolerance).clip(0)
        else:
            found = iterate(adjacency, unknown, nodes, target, rounds)
        if class_mass:
            found *= shares[known] / found.mean(0).clip(1e-12)
        scores[unknown] = _normalise(found, shares[known])
    out = torch.zeros(data.num_nodes, data.num_classes)
    out[:, torch.from_numpy(known)] = torch.from_numpy(scores).float()
    return out


def harmonic(
    adjacency: scipy.sparse.csr_matrix, unknown: np.ndarray, nodes: np.ndarray, target: np.ndarray, tolerance: float
) -> np.ndarray:
    """The harmonic function at the nodes `unknown` `[u, C]`, given `target` `[M, C]` at `nodes`."""
    degree = np.asarray(adjacency.sum(axis=1), np.float64).ravel()[unknown]
    rows = adjacency[unknown].astype(np.float64)
    inner = rows[:, unknown]
    return conjugate_gradient(
        lambda z: degree[:, None] * z - inner @ z,
        np.asarray(rows[:, nodes] @ target),
        degree,
        tolerance=tolerance,
    )


def iterate(
    adjacency: scipy.sparse.csr_matrix, unknown: np.ndarray, nodes: np.ndarray, target: np.ndarray, rounds: int
) -> np.ndarray:
    """What `rounds` averages over neighbours make of zeros at the nodes `unknown`, given `target` at `nodes`, `[u, C]`.

    Raises:
        ValueError: when there is less than one round.
    """
    if rounds < 1:
        raise ValueError(f"`rounds` must be at least 1. Got {rounds}.")
    degree = np.asarray(adjacency.sum(axis=1), np.float64).ravel()[unknown, None]
    rows = adjacency[unknown].astype(np.float64)
    inner, outer = rows[:, unknown], np.asarray(rows[:, nodes] @ target)
    found = outer / degree
    for _ in range(rounds - 1):
        found = (inner @ found + outer) / degree
    return found


def _reached(adjacency: scipy.sparse.csr_matrix, nodes: np.ndarray) -> np.ndarray:
    """The nodes outside `nodes` in a component that has one of them."""
    from scipy.sparse.csgraph import connected_components

    component = connected_components(adjacency, directed=False)[1]
    reached = np.isin(component, component[nodes])
    reached[nodes] = False
    return np.flatnonzero(reached)


def _normalise(scores: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Rows that sum to one; `otherwise` where a row is zero (a node so far that its chances underflow)."""
    total = scores.sum(1, keepdims=True)
    return np.where(total > 0, scores / np.where(total > 0, total, 1), otherwise)
