"""Feat: softmax regression on a node's own features; the graph is not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.baselines.selection import as_choices
from experiments.baselines.softmax_regression import choose_softmax
from experiments.baselines.visible import feature_matrix

if TYPE_CHECKING:
    from torch_geometric.data import Data


def feat(data: Data, *, seed: int = 0, strength: float | Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0)) -> Tensor:
    """The class probabilities of a linear softmax model of the features, `[N, C]`.

    The baseline "Feat" of Yang et al. 2016 (Planetoid): p(y | x) = softmax(x W + b).

    Args:
        data: with features.
        seed: not used; the fit is unique.
        strength: inverse of the L2 penalty, or several to choose from on the validation nodes.
    """
    x = feature_matrix(data, "feat")
    model = choose_softmax(x, data, as_choices(strength))
    return torch.from_numpy(model.probabilities(x)).float()
