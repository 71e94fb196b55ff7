"""DIEL: label propagation over lists and items, then a classifier of what it labelled (Bing et al. 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.baselines.softmax_regression import fit_softmax
from experiments.baselines.visible import Labelled, class_shares, feature_matrix, labelled, neighbours

if TYPE_CHECKING:
    import scipy.sparse
    from torch_geometric.data import Data


def diel(
    data: Data,
    *,
    seed: int = 0,
    restart: float = 0.15,
    walk_steps: int = 30,
    growth: float = 5.0,
    strength: float = 1.0,
) -> Tensor:
    """Class probabilities by propagation from seeds and distant supervision of a classifier, `[N, C]`.

    The system of Bing et al. 2015 as far as the paper describes it (Distantly-Supervised Entity Extraction: a bipartite
    graph of lists and the entities in them, seeds, features): a random walk with restart at the training nodes of each
    class gives each node a score a class (MultiRankWalk, Lin and Cohen 2010); the best-scored nodes of each class join
    the training nodes as examples; a linear classifier of the features is trained on them all. Nodes without features,
    such as items, and graphs without any keep the walk's shares. Restart and steps are ours: the paper gives none. The
    original trains a support vector machine for each class; a softmax regression stands here, for its probabilities.

    Args:
        data: edges and labels; features where there are any.
        seed: not used; nothing is drawn.
        restart: the chance that a walk starts again, at each step.
        walk_steps: steps of the walk's power iteration.
        growth: examples of each class, as a multiple of its training nodes.
        strength: inverse of the L2 penalty of the classifier.
    """
    adjacency, train = neighbours(data), labelled(data, "train")
    scores = walk_with_restart(adjacency, train, data.num_classes, restart, walk_steps)
    shares = _shares(scores, class_shares(data))
    if data.get("x") is None:
        return torch.from_numpy(shares).float()
    x = feature_matrix(data, "diel")
    described = np.diff(x.indptr) > 0
    examples = _examples(scores, train, described, growth)
    model = fit_softmax(x, examples, data.num_classes, strength)
    found = np.where(described[:, None], model.probabilities(x), shares)
    return torch.from_numpy(found).float()


def walk_with_restart(
    adjacency: scipy.sparse.csr_matrix, train: Labelled, num_classes: int, restart: float, steps: int
) -> np.ndarray:
    """How often a walk that restarts at the training nodes of each class is at each node, `[N, C]`.

    v = restart · u + (1 − restart) · A D⁻¹ v, with u uniform over the class's training nodes. Walks from nodes without
    neighbours end there.
    """
    degree = np.asarray(adjacency.sum(axis=1), np.float64).ravel()
    leave = 1 / np.where(degree > 0, degree, 1)
    count = np.bincount(train.classes, minlength=num_classes)
    start = np.zeros((adjacency.shape[0], num_classes))
    start[train.nodes, train.classes] = 1 / count[train.classes]
    scores = start.copy()
    for _ in range(steps):
        scores = restart * start + (1 - restart) * (adjacency @ (scores * leave[:, None]))
    return scores


def _shares(scores: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The scores as probabilities, `[N, C]`; `otherwise` at nodes that no walk reaches."""
    total = scores.sum(1, keepdims=True)
    return np.where(total > 0, scores / np.where(total > 0, total, 1), otherwise)


def _examples(scores: np.ndarray, train: Labelled, described: np.ndarray, growth: float) -> Labelled:
    """The training nodes, and for each class the nodes with features that its walk scores best among those it wins."""
    free = described.copy()
    free[train.nodes] = False
    winner = scores.argmax(1)
    nodes, classes = [train.nodes], [train.classes]
    for each in np.unique(train.classes):
        own = np.flatnonzero(free & (winner == each) & (scores[:, each] > 0))
        count = int((growth - 1) * (train.classes == each).sum())
        best = own[np.argsort(-scores[own, each], kind="stable")[:count]]
        nodes.append(best)
        classes.append(np.full(len(best), each))
    return Labelled(np.concatenate(nodes), np.concatenate(classes))
